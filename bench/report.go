package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
)

// results are the values of a run, in the order in which they were first given.
type results struct {
	order []key
	all   map[key]*measured
}

type key struct {
	scenario string
	value
}

type measured struct {
	unit string
	runs []float64
}

func (r *results) add(scenario string, v value, x float64, unit string) {
	k := key{scenario, v}
	if r.all == nil {
		r.all = make(map[key]*measured)
	}
	m, ok := r.all[k]
	if !ok {
		m = &measured{unit: unit}
		r.all[k] = m
		r.order = append(r.order, k)
	}
	m.runs = append(m.runs, x)
}

func (m *measured) median() float64 {
	sorted := slices.Sorted(slices.Values(m.runs))
	n := len(sorted)
	if n%2 == 1 {
		return sorted[n/2]
	}
	return (sorted[n/2-1] + sorted[n/2]) / 2
}

// valueRow and ratioRow are the rows of the report and of its JSON.
type valueRow struct {
	Scenario string    `json:"scenario"`
	Subject  string    `json:"subject"`
	Metric   string    `json:"metric"`
	Value    float64   `json:"value"`
	Unit     string    `json:"unit"`
	Runs     []float64 `json:"runs"`
}

type ratioRow struct {
	Scenario string  `json:"scenario"`
	Metric   string  `json:"metric"`
	Ratio    float64 `json:"ratio"`
	Bar      string  `json:"bar"`
	Met      bool    `json:"met"`
}

type report struct {
	values []valueRow
	ratios []ratioRow
	losses []string
}

// report makes the medians, the ratios and the list of losses.
func (r *results) report(chosen []scenario) report {
	var out report
	for _, k := range r.order {
		m := r.all[k]
		out.values = append(out.values, valueRow{k.scenario, k.subject, k.metric, m.median(), m.unit, m.runs})
		if loss := r.loss(k, m); loss != "" {
			out.losses = append(out.losses, loss)
		}
	}
	for _, s := range chosen {
		for _, bar := range s.bars {
			of, ok := r.all[key{s.name, bar.of}]
			if !ok {
				continue
			}
			ratio := of.median()
			if bar.per != (value{}) {
				per, ok := r.all[key{s.name, bar.per}]
				if !ok || per.median() == 0 {
					continue
				}
				ratio /= per.median()
			}
			out.ratios = append(out.ratios, ratioRow{s.name, bar.what, ratio, bar.String(), bar.met(ratio)})
		}
	}
	return out
}

// loss says where River does better than Pawl in the same place.
func (r *results) loss(k key, m *measured) string {
	rest, ok := strings.CutPrefix(k.subject, "pawl")
	if !ok {
		return ""
	}
	rival, ok := r.all[key{k.scenario, value{"river" + rest, k.metric}}]
	if !ok {
		return ""
	}
	mine, its := m.median(), rival.median()
	if moreIsBetter(m.unit) == (mine >= its) || mine == its {
		return ""
	}
	return fmt.Sprintf("%s, %s: %s %s, River %s", k.scenario, k.metric, short(mine), m.unit, short(its))
}

func moreIsBetter(unit string) bool {
	return strings.HasSuffix(unit, "/s") || unit == "of the first third"
}

// short prints a value with three digits that matter.
func short(v float64) string {
	switch a := math.Abs(v); {
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	case a >= 0.1 || a == 0:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

func (r report) print(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "SCENARIO\tSUBJECT\tMETRIC\tMEDIAN\tUNIT\tRUNS")
	for _, v := range r.values {
		runs := make([]string, len(v.Runs))
		for i, x := range v.Runs {
			runs[i] = short(x)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", v.Scenario, v.Subject, v.Metric, short(v.Value), v.Unit, strings.Join(runs, " "))
	}
	t.Flush()
	fmt.Fprintln(t, "\nSCENARIO\tRATIO\tVALUE\tBAR\t")
	missed := 0
	for _, x := range r.ratios {
		verdict := "met"
		if !x.Met {
			verdict = "NOT MET"
			missed++
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", x.Scenario, x.Metric, short(x.Ratio), x.Bar, verdict)
	}
	t.Flush()
	fmt.Fprintf(w, "\n%d of %d bars are met.\n", len(r.ratios)-missed, len(r.ratios))
	if len(r.losses) > 0 {
		fmt.Fprintln(w, "\nWhere Pawl is behind River:")
		for _, l := range r.losses {
			fmt.Fprintln(w, "  "+l)
		}
	}
}

// markdown writes the report as a section of a document.
func (r report) markdown(w io.Writer, about, call string) {
	fmt.Fprintf(w, "```sh\n%s\n```\n\n```text\n%s```\n\n", call, about)
	fmt.Fprintln(w, "| scenario | ratio | value | bar | |\n|---|---|---|---|---|")
	for _, x := range r.ratios {
		verdict := "met"
		if !x.Met {
			verdict = "**not met**"
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s |\n", x.Scenario, x.Metric, short(x.Ratio), x.Bar, verdict)
	}
	fmt.Fprintln(w, "\n| scenario | subject | metric | median | unit |\n|---|---|---|---|---|")
	for _, v := range r.values {
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s |\n", v.Scenario, v.Subject, v.Metric, short(v.Value), v.Unit)
	}
	if len(r.losses) > 0 {
		fmt.Fprint(w, "\nWhere Pawl is behind River:\n\n")
		for _, l := range r.losses {
			fmt.Fprintln(w, "- "+l)
		}
	}
}

// writeMarkdown writes the report to a file.
func (r report) writeMarkdown(path, about, call string) error {
	var b strings.Builder
	r.markdown(&b, about, call)
	return os.WriteFile(path, []byte(b.String()), 0o644)
}

// writeJSON writes an array with a row a line.
func (r report) writeJSON(path string) error {
	var rows []any
	for _, v := range r.values {
		rows = append(rows, v)
	}
	for _, x := range r.ratios {
		rows = append(rows, x)
	}
	var b strings.Builder
	for i, row := range rows {
		text, err := json.Marshal(row)
		if err != nil {
			return err
		}
		b.WriteString([]string{"[\n", ",\n"}[min(i, 1)])
		b.Write(text)
	}
	if len(rows) == 0 {
		b.WriteString("[")
	}
	b.WriteString("\n]\n")
	return os.WriteFile(path, []byte(b.String()), 0o644)
}

package runtime

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/measure"
)

var update = flag.Bool("update", false, "write the table of docs/metrics.md anew")

// prometheusName is how Prometheus names a metric, by the exporter's rules. The
// tests of module ops hold it to what the exporter does.
func prometheusName(i *instrument) string {
	name := strings.ReplaceAll(i.name, ".", "_")
	switch {
	case i.unit == "s":
		name += "_seconds"
	case i.unit == "1" && i.kind == gauge:
		name += "_ratio"
	}
	if i.kind == counter {
		name += "_total"
	}
	return name
}

// document is the part of docs/metrics.md that the table of metrics says.
func document() string {
	var b strings.Builder
	section := func(title string, of func(*instrument) bool) {
		fmt.Fprintf(&b, "\n### %s\n\n| metric <br> in Prometheus | unit | labels | what it says |\n|---|---|---|---|\n", title)
		for n := range instruments {
			i := &instruments[n]
			if !of(i) {
				continue
			}
			var labels []string
			for _, l := range i.labels {
				labels = append(labels, "`"+l+"`")
			}
			fmt.Fprintf(&b, "| `%s` <br> `%s` | %s | %s | %s |\n", i.name, prometheusName(i), i.unit, strings.Join(labels, ", "), i.text)
		}
	}
	section("Histograms", func(i *instrument) bool { return i.kind == histogram })
	section("Counters", func(i *instrument) bool { return i.kind == counter })
	section("Gauges of the process", func(i *instrument) bool { return i.kind == gauge && i.reach == ofProcess })
	section("Gauges of the database", func(i *instrument) bool { return i.reach == ofDatabase })
	b.WriteString("\n### Buckets\n\n| histogram | upper bounds |\n|---|---|\n")
	for n := range instruments {
		i := &instruments[n]
		if i.kind != histogram {
			continue
		}
		var bounds []string
		for _, bound := range i.buckets {
			text := fmt.Sprint(bound)
			if i.unit == "s" {
				text = short(time.Duration(bound * float64(time.Second)))
			}
			bounds = append(bounds, text)
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", i.name, strings.Join(bounds, ", "))
	}
	fmt.Fprintf(&b, "\n### Values of labels\n\n| label | values |\n|---|---|\n")
	fmt.Fprintf(&b, "| `%s` | the queue; at most %d, and `%s` for the rest |\n", labelQueue, maxQueues, other)
	fmt.Fprintf(&b, "| `%s` | the kind, at most %d, or the type of an event, at most %d; `%s` for the rest |\n", labelKind, maxKinds, maxEvents, other)
	fmt.Fprintf(&b, "| `%s` | %s |\n", labelOutcome, list(outcomeNames[1:]))
	fmt.Fprintf(&b, "| `%s` | %s; of a send also `%s`; none where there was no error |\n", labelError, list(errorClasses[1:]), measure.Invalid)
	fmt.Fprintf(&b, "| `%s` | %s |\n", labelDBOp, list(operationNames[:]))
	fmt.Fprintf(&b, "| `%s` | a hot table, without its schema |\n", labelTable)
	fmt.Fprintf(&b, "| `%s` | `pawl` |\n", labelSystem)
	fmt.Fprintf(&b, "| `%s`, `%s` | `process`, `process`; `claim`, `receive`; `settle`, `settle`; `enqueue`, `send`; `publish`, `send` |\n\n", labelOp, labelOpType)
	return b.String()
}

func list(names []string) string { return "`" + strings.Join(names, "`, `") + "`" }

// short is a duration without the parts that are zero.
func short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// The document lists the metrics as they are; -update writes that part anew.
func TestDocumentOfMetrics(t *testing.T) {
	t.Parallel()
	const path, begin, end = "../docs/metrics.md", "<!-- begin of what is generated -->\n", "<!-- end of what is generated -->\n"
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(raw), begin)
	require.True(t, ok)
	is, after, ok := strings.Cut(rest, end)
	require.True(t, ok)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(before+begin+document()+end+after), 0o644))
		return
	}
	require.Equal(t, document(), is, "go test ./runtime -run TestDocumentOfMetrics -update writes it anew")
}

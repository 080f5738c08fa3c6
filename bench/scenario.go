package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// scenario is one thing that is measured. It gives values by [bench.record], and
// the bars say what is made of them.
type scenario struct {
	name  string
	what  string
	quick bool // part of -quick
	run   func(ctx context.Context, b *bench) error
	bars  []bar
}

// value names a measured value of a scenario.
type value struct{ subject, metric string }

// bar is a ratio that Pawl is held to: of divided by per, or of by itself where
// per is empty.
type bar struct {
	what    string
	of, per value
	atLeast float64 // 0 for none
	atMost  float64 // 0 for none
	unit    string  // of a bar that is no ratio
}

func (b bar) String() string {
	if b.atMost > 0 {
		return fmt.Sprintf("≤ %.2f%s", b.atMost, b.unit)
	}
	return fmt.Sprintf("≥ %.2f%s", b.atLeast, b.unit)
}

func (b bar) met(ratio float64) bool {
	return ratio >= b.atLeast && (b.atMost == 0 || ratio <= b.atMost)
}

// scenarios are all there are, in the order in which they run.
var scenarios = slices.Concat(drains, footprints, bulks, singles, latencies, crowds, held, claims, scales, crashes, keys, orders)

// choose returns the scenarios that the flags ask for.
func choose(all []scenario, names string, quick bool) ([]scenario, error) {
	var chosen []scenario
	if names != "" {
		for name := range strings.SplitSeq(names, ",") {
			i := slices.IndexFunc(all, func(s scenario) bool { return s.name == name })
			if i < 0 {
				return nil, fmt.Errorf("there is no scenario %q: -list lists them", name)
			}
			chosen = append(chosen, all[i])
		}
		return chosen, nil
	}
	for _, s := range all {
		if s.quick || !quick {
			chosen = append(chosen, s)
		}
	}
	return chosen, nil
}

func printList(w io.Writer, all []scenario) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, s := range all {
		mark := ""
		if s.quick {
			mark = "quick"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", s.name, mark, s.what)
		for _, b := range s.bars {
			fmt.Fprintf(t, "\t\t  %s: %s\n", b.what, b)
		}
	}
	t.Flush()
}

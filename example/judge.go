package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlgo/pawl/example/check"
	"github.com/pawlgo/pawl/example/fleetdb"
	"github.com/pawlgo/pawl/example/work"
	"github.com/pawlgo/pawl/task"
)

// judge gathers what is known of a run and holds it against the checks.
type judge struct{ p *platform }

// judge prints what became of the run, and returns errChecks where it is not
// what it should be.
func (p *platform) judge(ctx context.Context) error {
	j := &judge{p}
	verdict := j.run(ctx, nil)
	if p.judged != nil {
		verdict = errors.Join(verdict, p.judged(ctx, j))
	}
	return verdict
}

// run judges in a transaction that leaves nothing behind. The spoiler, where
// not nil, comes first.
func (j *judge) run(ctx context.Context, spoil func(ctx context.Context, tx pgx.Tx) error) error {
	tx, err := j.p.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		return err
	}
	err = func() error {
		if spoil != nil {
			if err := spoil(ctx, tx); err != nil {
				return err
			}
		}
		facts, err := j.facts(ctx, tx)
		if err != nil {
			return err
		}
		dead, err := fleetdb.Dead(ctx, tx)
		if err != nil {
			return err
		}
		j.printExecutions(facts)
		j.printDead(dead)
		j.printReturns(facts)
		return j.printVerdicts(check.All(facts))
	}()
	return errors.Join(err, tx.Rollback(context.WithoutCancel(ctx)))
}

func (j *judge) facts(ctx context.Context, tx pgx.Tx) (*check.Facts, error) {
	facts, err := fleetdb.Facts(ctx, tx)
	if err != nil {
		return nil, err
	}
	facts.Reference = j.p.reference
	if facts.Files, err = readFiles(j.p.outDir); err != nil {
		return nil, err
	}
	type delivery struct{ subscriber, event string }
	answers := map[delivery][]int{}
	for _, r := range j.p.receiver.Requests() {
		d := delivery{r.Subscriber, r.EventID}
		answers[d] = append(answers[d], r.Status)
	}
	for i := range facts.Webhooks {
		w := &facts.Webhooks[i]
		w.Answers = answers[delivery{w.Subscriber, w.EventID.String()}]
	}
	for _, w := range j.p.workers {
		if w.running() {
			facts.Workers = append(facts.Workers, w.name)
		}
	}
	if j.p.drill {
		facts.Drill = &check.Drill{Worker: j.p.workers[1].name, Slots: j.p.settings.Slots}
	}
	return facts, nil
}

func readFiles(dir string) (map[string][]byte, error) {
	root := os.DirFS(dir)
	entries, err := fs.ReadDir(root, ".")
	if err != nil {
		return nil, fmt.Errorf("read the output: %w", err)
	}
	files := make(map[string][]byte, len(entries))
	for _, e := range entries {
		if files[e.Name()], err = fs.ReadFile(root, e.Name()); err != nil {
			return nil, fmt.Errorf("read the output: %w", err)
		}
	}
	return files, nil
}

// printExecutions prints how the executions of each queue ended.
func (j *judge) printExecutions(facts *check.Facts) {
	const lost = "killed"
	counts, outcomes, jobs := map[string]map[string]int{}, map[string]bool{}, map[string]map[string]bool{}
	for _, e := range facts.Executions {
		if counts[e.Queue] == nil {
			counts[e.Queue], jobs[e.Queue] = map[string]int{}, map[string]bool{}
		}
		outcome := cmp.Or(e.Outcome, lost)
		counts[e.Queue][outcome]++
		outcomes[outcome] = true
		jobs[e.Queue][e.JobID.String()] = true
	}
	columns := slices.SortedFunc(maps.Keys(outcomes), func(a, b string) int {
		return cmp.Or(-cmp.Compare(btoi(a == work.Completed), btoi(b == work.Completed)), cmp.Compare(a, b))
	})
	fmt.Fprintf(j.p.stdout, "\nExecutions by queue and outcome\n")
	table := tabwriter.NewWriter(j.p.stdout, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "queue\tjobs\truns\tretries\t%s\t\n", strings.Join(columns, "\t"))
	for _, queue := range slices.Sorted(maps.Keys(counts)) {
		runs := 0
		for _, n := range counts[queue] {
			runs += n
		}
		// To be told to come back later is no retry.
		retries := runs - len(jobs[queue]) - counts[queue][string(task.ClassSnooze)]
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t", queue, len(jobs[queue]), runs, retries)
		for _, outcome := range columns {
			fmt.Fprintf(table, "%d\t", counts[queue][outcome])
		}
		fmt.Fprintln(table)
	}
	table.Flush()
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (j *judge) printDead(dead []fleetdb.DeadLetters) {
	fmt.Fprintf(j.p.stdout, "\nDead letters\n")
	if len(dead) == 0 {
		fmt.Fprintln(j.p.stdout, "  none")
	}
	for _, d := range dead {
		fmt.Fprintf(j.p.stdout, "  %d of %s: %s (%s)\n", d.Jobs, d.Queue, d.Reason, d.Code)
	}
}

// printReturns prints how long the jobs of the killed worker took to come back,
// the worst of them one by one.
func (j *judge) printReturns(facts *check.Facts) {
	returns := check.Returns(facts)
	if len(returns) == 0 {
		return
	}
	back := func(r check.Return) string {
		if r.After == 0 {
			return "never"
		}
		return fmt.Sprintf("%.1f s", r.After.Seconds())
	}
	last := len(returns) - 1
	fmt.Fprintf(j.p.stdout, "\nStarted jobs that the killed worker held, and how long they took to come back\n")
	fmt.Fprintf(j.p.stdout, "  in all %d: min %s, median %s, max %s; the slowest:\n", len(returns), back(returns[0]), back(returns[last/2]), back(returns[last]))
	const shown = 5
	slices.Reverse(returns)
	for _, r := range returns[:min(shown, len(returns))] {
		// Less than nothing where the row of the start was still on its way to the
		// database as the process died.
		ran := max(facts.Kills[facts.Drill.Worker].Sub(r.Held.StartedAt).Round(time.Millisecond), 0)
		fmt.Fprintf(j.p.stdout, "  %s %s, killed after %v: %s\n", r.Held.Kind, r.Held.JobID, ran, back(r))
	}
	if more := len(returns) - shown; more > 0 {
		fmt.Fprintf(j.p.stdout, "  … and %d more\n", more)
	}
}

func (j *judge) printVerdicts(verdicts []check.Verdict) error {
	fmt.Fprintf(j.p.stdout, "\nChecks\n")
	var failed error
	for _, v := range verdicts {
		if v.OK() {
			fmt.Fprintf(j.p.stdout, "  ✓ %s: %s\n", v.Name, v.Says)
			continue
		}
		failed = errChecks
		const shown = 5
		fmt.Fprintf(j.p.stdout, "  ✗ %s:\n", v.Name)
		for _, problem := range v.Problems[:min(shown, len(v.Problems))] {
			fmt.Fprintf(j.p.stdout, "      %s\n", problem)
		}
		if more := len(v.Problems) - shown; more > 0 {
			fmt.Fprintf(j.p.stdout, "      and %d more\n", more)
		}
	}
	return failed
}

package runtime

import (
	"context"
	"slices"

	"github.com/pawlgo/pawl/internal/store"
)

// rekeyEvents is how many pending events one transaction moves.
const rekeyEvents = 250

// events removes what is over of the outbox, as run does of the jobs.
func (p *pass) events() {
	if keep := p.keep.Events; keep > 0 {
		moving := p.moveEvents()
		leaves := p.eventLeaves()
		for _, l := range due(leaves, store.Events, keep) {
			if slices.Contains(moving, l.Day) {
				// Transactions may be under way that see pending events there.
				p.putOff(l)
				continue
			}
			p.emptyBy(l, p.w.store.EmptyEvents)
		}
		for _, l := range slices.Concat(due(leaves, store.EventOutcomes, keep), due(leaves, store.EventErrors, keep)) {
			p.emptyBy(l, p.w.store.EmptyEvents)
		}
	}
	for _, l := range p.eventLeaves() {
		if l.State != store.Attached || !l.Used && l.Over > day {
			p.remove(l)
		}
	}
	for left := p.keep.DeadLetters > 0; left; {
		ok := p.step("remove old dead events", func(ctx context.Context) error {
			removed, err := p.w.store.PurgeDeadEvents(ctx, p.keep.DeadLetters, purgeBatch)
			p.w.counters.retention.deadLetters.Add(int64(removed))
			left = removed == purgeBatch
			return err
		})
		left = left && ok
	}
}

func (p *pass) eventLeaves() (leaves []store.Leaf) {
	p.step("list the days of the outbox", func(ctx context.Context) (err error) {
		leaves, err = p.w.store.EventLeaves(ctx)
		return err
	})
	return leaves
}

// moveEvents moves pending events out of the days that are to be emptied next,
// and returns the days that it has found some in.
func (p *pass) moveEvents() (found []int) {
	for more := true; more; {
		more = false
		p.step("move pending events to a later day", func(ctx context.Context) error {
			moved, days, err := p.w.store.RekeyEvents(ctx, p.keep.Events, rekeyEvents)
			p.w.counters.retention.moved.Add(int64(moved))
			found = append(found, days...)
			more = moved == rekeyEvents
			return err
		})
	}
	return found
}

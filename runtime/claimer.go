package runtime

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/pawlgo/pawl/internal/store"
)

const (
	// claimsAtOnce bounds the claims of a worker that are under way, and with them
	// the connections that it holds: each has every statement to plan. What comes
	// meanwhile goes together.
	claimsAtOnce = 4
	// claimsTogether bounds the queues of one claim.
	claimsTogether = 64
	// scanAlone is from when on the scans of a queue from the beginning keep no other
	// queue waiting: there is much before its first due job.
	scanAlone = 50 * time.Millisecond
)

// claimer sends the claims of all queues. Those that wait while others are under
// way go in one statement: a worker of many queues that have a few slots each would
// pay for a transaction for every few jobs otherwise.
type claimer struct {
	all func(context.Context, []*store.Claim) ([]*store.Claimed, error) // asks the database

	mu       sync.Mutex
	underWay int      // guarded by mu; statements
	waiting  []*asked // guarded by mu; empty unless as many are under way as may be
}

// asked is a claim that waits for its answer.
type asked struct {
	*store.Claim
	alone    bool
	answered chan struct{} // closed when what follows is set
	claimed  *store.Claimed
	took     time.Duration
	err      error
	lead     chan []*asked // to send these, of which it is the first
}

// errNotSent is the error of a claim that a shutdown has overtaken: it has taken
// nothing.
var errNotSent = errors.New("the claim was not sent")

// send sends a claim, by itself or along with others, and returns how long the
// statement took. The end of ctx keeps it from being sent, and leaves one that has
// been only claimHurry: its answer says what is held.
func (c *claimer) send(ctx context.Context, claim *store.Claim, alone bool) (*store.Claimed, time.Duration, error) {
	a := &asked{Claim: claim, alone: alone || !claim.Together(), answered: make(chan struct{}), lead: make(chan []*asked, 1)}
	c.mu.Lock()
	if c.underWay < claimsAtOnce {
		c.underWay++
		c.mu.Unlock()
		c.call(ctx, []*asked{a})
		return a.claimed, a.took, a.err
	}
	c.waiting = append(c.waiting, a)
	c.mu.Unlock()
	done := ctx.Done()
	for {
		select {
		case <-a.answered:
			return a.claimed, a.took, a.err
		case all := <-a.lead:
			c.call(ctx, all)
		case <-done:
			if c.leave(a) {
				return nil, 0, errNotSent
			}
			done = nil // it is on its way
		}
	}
}

// leave takes back a claim that waits. It reports false for one that is on its way.
func (c *claimer) leave(a *asked) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.waiting, a)
	if i < 0 {
		return false
	}
	c.waiting = slices.Delete(c.waiting, i, i+1)
	return true
}

// call sends claims in one statement, and then has the first of those that have
// come meanwhile send the next.
func (c *claimer) call(ctx context.Context, all []*asked) {
	claims := make([]*store.Claim, len(all))
	for i, a := range all {
		claims[i] = a.Claim
	}
	calling, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimTimeout)
	hurry := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(claimHurry, cancel)
		context.AfterFunc(calling, func() { timer.Stop() })
	})
	sent := time.Now()
	claimed, err := c.all(calling, claims)
	took := time.Since(sent)
	hurry()
	cancel()
	for i, a := range all {
		a.took, a.err = took, err
		if err == nil {
			a.claimed = claimed[i]
		}
		close(a.answered)
	}
	c.mu.Lock()
	next := c.take()
	if next == nil {
		c.underWay--
	}
	c.mu.Unlock()
	if next != nil {
		next[0].lead <- next
	}
}

// take takes claims that wait and can go together: the first, and where it can,
// those behind it. To be called with mu held.
func (c *claimer) take() (all []*asked) {
	jobs := 0
	c.waiting = slices.DeleteFunc(c.waiting, func(a *asked) bool {
		fits := len(all) == 0 ||
			len(all) < claimsTogether && jobs+a.Limit <= maxClaim && !all[0].alone && !a.alone && a.Owner == all[0].Owner
		if fits {
			all = append(all, a)
			jobs += a.Limit
		}
		return fits
	})
	return all
}

// claimAll asks the database for claims.
func (w *Worker) claimAll(ctx context.Context, claims []*store.Claim) ([]*store.Claimed, error) {
	sent := time.Now()
	claimed, err := w.store.ClaimAll(ctx, claims)
	w.metrics.database(opClaim, time.Since(sent), 0, err)
	return claimed, err
}

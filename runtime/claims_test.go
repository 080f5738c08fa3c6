package runtime

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/store"
)

// desk stands for the database: statements wait at it until somebody lets them go.
type desk struct {
	asked chan statement
}

type statement struct {
	queues []string
	answer chan error
}

func (d *desk) all(ctx context.Context, claims []*store.Claim) ([]*store.Claimed, error) {
	s := statement{answer: make(chan error)}
	claimed := make([]*store.Claimed, len(claims))
	for i, c := range claims {
		s.queues = append(s.queues, c.Queue)
		claimed[i] = &store.Claimed{Jobs: []store.ClaimedJob{{Kind: c.Queue}}}
	}
	d.asked <- s
	select {
	case err := <-s.answer:
		return claimed, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// next is the statement that waits next.
func (d *desk) next(t *testing.T) statement {
	t.Helper()
	synctest.Wait()
	select {
	case s := <-d.asked:
		return s
	default:
		t.Fatal("no statement is sent")
		panic("unreachable")
	}
}

// answered is what became of a claim.
type answered struct {
	claimed *store.Claimed
	err     error
	after   time.Duration
}

// busy is a claimer with as many statements under way as may be, and a function
// that has it send one more claim.
func busy(t *testing.T) (d *desk, first []statement, send func(context.Context, *store.Claim, bool) chan answered) {
	d = &desk{asked: make(chan statement, 100)}
	c := &claimer{all: d.all}
	send = func(ctx context.Context, claim *store.Claim, alone bool) chan answered {
		answer := make(chan answered, 1)
		go func() {
			began := time.Now()
			claimed, _, err := c.send(ctx, claim, alone)
			answer <- answered{claimed, err, time.Since(began)}
		}()
		synctest.Wait() // so that they stand in order
		return answer
	}
	for range claimsAtOnce {
		send(t.Context(), &store.Claim{Queue: "first", Limit: 1}, false)
		s := d.next(t)
		require.Equal(t, []string{"first"}, s.queues)
		first = append(first, s)
	}
	return d, first, send
}

func TestClaimsGoTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, first, send := busy(t)
		other := uuid.New()
		answers := make(map[string]chan answered)
		for _, c := range []struct {
			*store.Claim
			alone bool
		}{
			{&store.Claim{Queue: "a", Limit: 5}, false},
			{&store.Claim{Queue: "slow", Limit: 5}, true},
			{&store.Claim{Queue: "b", Limit: 5}, false},
			{&store.Claim{Queue: "ordered", Limit: 5, Ordered: true}, false},
			{&store.Claim{Queue: "other", Limit: 5, Owner: other}, false},
			{&store.Claim{Queue: "large", Limit: maxClaim}, false},
			{&store.Claim{Queue: "c", Limit: 5}, false},
		} {
			answers[c.Queue] = send(t.Context(), c.Claim, c.alone)
		}
		require.Empty(t, d.asked, "as many are under way as may be")
		var sent [][]string
		for range 5 { // one under way lets the next go
			close(first[0].answer)
			s := d.next(t)
			sent = append(sent, s.queues)
			first = append(first[1:], s)
		}
		require.Equal(t, [][]string{{"a", "b", "c"}, {"slow"}, {"ordered"}, {"other"}, {"large"}}, sent)
		for _, s := range first {
			close(s.answer)
		}
		for name, answer := range answers {
			a := <-answer
			require.NoError(t, a.err)
			require.Equal(t, name, a.claimed.Jobs[0].Kind)
		}
		require.Empty(t, d.asked)
		send(t.Context(), &store.Claim{Queue: "later", Limit: 1}, false)
		close(d.next(t).answer) // there is room again
	})
}

// The error of a statement is that of each claim in it, and the next one goes on.
func TestClaimsFailTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, first, send := busy(t)
		a, b := send(t.Context(), &store.Claim{Queue: "a", Limit: 1}, false), send(t.Context(), &store.Claim{Queue: "b", Limit: 1}, false)
		close(first[0].answer)
		d.next(t).answer <- context.Canceled
		require.ErrorIs(t, (<-a).err, context.Canceled)
		require.ErrorIs(t, (<-b).err, context.Canceled)
		c := send(t.Context(), &store.Claim{Queue: "c", Limit: 1}, false)
		close(d.next(t).answer)
		require.NoError(t, (<-c).err)
		for _, s := range first[1:] {
			close(s.answer)
		}
	})
}

// A shutdown ends the wait of claims that were not sent, and gives those that were a
// moment for their answers.
func TestShutdownOfClaims(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, first, send := busy(t)
		ctx, shutdown := context.WithCancel(t.Context())
		sent := send(ctx, &store.Claim{Queue: "sent", Limit: 1}, false)
		close(first[0].answer)
		require.Equal(t, []string{"sent"}, d.next(t).queues)
		waits := send(ctx, &store.Claim{Queue: "waits", Limit: 1}, false)
		shutdown()
		a := <-waits
		require.ErrorIs(t, a.err, errNotSent)
		require.Zero(t, a.after)
		a = <-sent
		require.ErrorIs(t, a.err, context.Canceled)
		require.Equal(t, claimHurry, a.after)
		for _, s := range first[1:] {
			close(s.answer)
		}
		synctest.Wait()
		require.Empty(t, d.asked, "what was not sent is gone")
	})
}

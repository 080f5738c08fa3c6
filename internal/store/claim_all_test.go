package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/store"
	"github.com/pawlgo/pawl/internal/testdb"
)

// Each of several claims gets what it would have got by itself.
func TestClaimAll(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	owner := register(t, s, time.Minute)
	of := func(name string, limit int, change ...func(*store.Claim)) *store.Claim {
		c := &store.Claim{Owner: owner, Token: uuid.New(), Queue: name, Limit: limit, Capabilities: []int64{capability}}
		for _, f := range change {
			f(c)
		}
		return c
	}
	many := enqueue(t, pool, 200, queue("many"))
	low := enqueue(t, pool, 2, queue("levels"), priority(1))
	high := enqueue(t, pool, 2, queue("levels"), priority(4))
	known := enqueue(t, pool, 2, queue("kinds"), capable(8))
	enqueue(t, pool, 2, queue("kinds")) // of a capability that the first claim knows
	enqueue(t, pool, 2, queue("later"), delay(time.Hour))
	enqueue(t, pool, 3, queue("paused"))
	exec(t, pool, `SELECT pawl.pause('paused')`)
	enqueue(t, pool, 1, queue("lost"))
	exec(t, pool, `UPDATE pawl.ready SET suspect = true WHERE queue = 'lost'`)
	past := enqueue(t, pool, 1, queue("past"))
	exec(t, pool, `UPDATE pawl.ready SET run_at = run_at - interval '1 hour' WHERE id = $1`, past[0])
	now := query[time.Time](t, pool, `SELECT clock_timestamp()`)

	yes, no := true, false
	claims := []*store.Claim{
		of("many", store.MaxBatch, func(c *store.Claim) { c.Sleep = &yes }),
		of("levels", 3),
		of("nothing", 5, func(c *store.Claim) { c.Sleep = &yes; c.Capabilities = nil }),
		of("kinds", 5, func(c *store.Claim) { c.Capabilities = []int64{8, 9} }),
		of("later", 5, func(c *store.Claim) { c.Sleep = &no }),
		of("paused", 5),
		of("lost", 5),
		of("past", 5, func(c *store.Claim) { c.Floors = [store.Priorities]time.Time{now, now, now, now} }),
	}
	exec(t, pool, `INSERT INTO pawl.sleepers VALUES ('many', $1), ('later', $1), ('levels', $1)`, owner)
	claimed, err := s.ClaimAll(t.Context(), claims)
	require.NoError(t, err)
	require.Len(t, claimed, len(claims))
	require.Equal(t, many[:store.MaxBatch], idsOf(claimed[0].Jobs))
	require.Equal(t, []uuid.UUID{high[0], high[1], low[0]}, idsOf(claimed[1].Jobs))
	require.Empty(t, claimed[2].Jobs)
	require.Equal(t, known, idsOf(claimed[3].Jobs))
	for i, c := range claimed {
		require.False(t, c.At.IsZero())
		require.Equal(t, claims[i].Queue == "paused", c.Paused, claims[i].Queue)
		require.Equal(t, claims[i].Queue == "lost", c.Suspects, claims[i].Queue)
		require.Equal(t, claims[i].Queue == "later", !c.Next.IsZero(), claims[i].Queue)
		for at, j := range c.Jobs {
			require.Equal(t, claims[i].Token, j.Token)
			require.Equal(t, at+1, j.Position)
		}
		if i > 3 {
			require.Empty(t, c.Jobs, claims[i].Queue)
		}
	}
	require.WithinDuration(t, now.Add(time.Hour), claimed[4].Next, time.Minute)
	require.Equal(t, "levels nothing", query[string](t, pool, `SELECT string_agg(queue, ' ' ORDER BY queue) FROM pawl.sleepers`),
		"who fills up does not sleep, and who is not asked does not change")
	require.Equal(t, "kinds levels many", query[string](t, pool, `SELECT string_agg(queue, ' ' ORDER BY queue) FROM pawl.leases`))
	for _, c := range claimed {
		for _, j := range c.Jobs {
			require.Equal(t, []bool{true}, settle(t, s, owner, settlement(j, store.Completed)))
		}
	}
	require.Equal(t, store.Audit{Completed: store.MaxBatch + 5, Ready: 82}, audit(t, s))
}

// What asks for more than jobs goes alone, and so does what is another's.
func TestClaimsThatGoAlone(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	owner := register(t, s, time.Minute)
	plain := func() *store.Claim {
		return &store.Claim{Owner: owner, Token: uuid.New(), Queue: "q", Limit: 1, Capabilities: []int64{capability}}
	}
	for name, change := range map[string]func(*store.Claim){
		"owner":   func(c *store.Claim) { c.Owner = uuid.New() },
		"ordered": func(c *store.Claim) { c.Ordered = true },
		"suspect": func(c *store.Claim) { c.SuspectToken = uuid.New() },
		"alone":   func(c *store.Claim) { c.Alone, c.AloneTokens = c.Capabilities, []uuid.UUID{uuid.New()} },
		"tokens":  func(c *store.Claim) { c.MoreTokens = []uuid.UUID{uuid.New()} },
	} {
		odd := plain()
		odd.Queue = name
		change(odd)
		_, err := s.ClaimAll(t.Context(), []*store.Claim{plain(), odd})
		require.ErrorContains(t, err, "queue "+name+" that cannot be sent along", name)
	}
}

// A claim of many queues touches no more when other jobs fill the tables.
func TestPlanOfClaimAll(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t, testdb.MaxConns(1))
	s := storeOf(t, pool)
	owner := register(t, s, time.Hour)
	exec(t, pool, `VACUUM ANALYZE`)
	fill := func(n int) {
		for i := range 64 {
			enqueue(t, pool, n, queue(fmt.Sprint("q", i)))
		}
	}
	claiming := func() int {
		return pages(t, pool, `SELECT * FROM pawl.claim($1, (SELECT array_agg('q' || g) FROM generate_series(0, 63) g), array_fill(5, '{64}'),
			(SELECT array_agg(gen_random_uuid()) FROM generate_series(1, 64)), array_fill(7::bigint, '{64}'),
			(SELECT array_agg(g) FROM generate_series(1, 64) g), array_fill('-infinity'::timestamptz, '{256}'))`, owner.String())
	}
	fill(5)
	small := claiming()
	fill(500)
	enqueue(t, pool, 20_000, delay(time.Hour))
	require.LessOrEqual(t, claiming(), 2*small)
}

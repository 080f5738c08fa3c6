package runtime_test

import (
	"cmp"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlgo/pawl/internal/testdb"
	pawlrt "github.com/pawlgo/pawl/runtime"
)

// poolerEnv makes the workers of all tests connect through a pooler; its value
// is a behindPooler.
const poolerEnv = "PAWL_TEST_POOLER"

// behindPooler says where a transaction pooler is, and how workers live with it.
type behindPooler struct {
	Host string
	Port uint16
	Mode pgx.QueryExecMode
	// Direct gives workers a listener past the pooler; without it they poll.
	Direct bool
}

// poller says that workers of this run do without a listener.
func poller() bool {
	p, ok := readPooler()
	return ok && !p.Direct
}

func readPooler() (p behindPooler, ok bool) {
	text := os.Getenv(poolerEnv)
	if text == "" {
		return p, false
	}
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		panic(err)
	}
	return p, true
}

// workerPool is the pool of a worker that works on a database: it has the rights of
// one and no more, unless it goes through a pooler, which knows one user.
func workerPool(t *testing.T, pool *pgxpool.Pool, config *pawlrt.Config) *pgxpool.Pool {
	t.Helper()
	if _, ok := readPooler(); !ok {
		if config.Schema != "" { // the roles have rights in the default one
			return pool
		}
		return asWorker(t, pool)
	}
	return changed(t, pool, func(c *pgxpool.Config) { throughPooler(c, config) })
}

// pooledName is the name of connections through a pooler that is a test's own.
const pooledName = "pooled"

// asWorker makes a worker's pool of one that logs in as the owner of everything.
// One that logs in as somebody else, or has a role set, stays as it is, and so does
// one that goes through a pooler.
func asWorker(t *testing.T, pool *pgxpool.Pool) *pgxpool.Pool {
	t.Helper()
	if !testdb.Owns(pool) || pool.Config().ConnConfig.RuntimeParams["application_name"] == pooledName {
		return pool
	}
	return testdb.As(t, pool, testdb.Worker)
}

// throughPooler changes a worker's configuration, and its pool's, for a run
// behind a pooler.
func throughPooler(pool *pgxpool.Config, config *pawlrt.Config) {
	p, ok := readPooler()
	if !ok {
		return
	}
	if config.Lease > 0 { // heartbeats wait for others' transactions
		config.Lease = max(config.Lease, 4*time.Second)
		config.Heartbeat = max(config.Heartbeat, time.Second)
	}
	switch {
	case config.PollOnly:
	case p.Direct:
		config.Listen = pool.ConnConfig.Copy()
	default:
		config.PollOnly = true
		// Tests that never poll wait for wake-ups; and longer than they look for
		// claims to find a worker idle.
		const most = 400 * time.Millisecond
		config.Poll = min(cmp.Or(config.Poll, most), most)
	}
	pool.ConnConfig.Host, pool.ConnConfig.Port, pool.ConnConfig.Fallbacks, pool.ConnConfig.TLSConfig = p.Host, p.Port, nil, nil
	if pool.ConnConfig.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement {
		pool.ConnConfig.DefaultQueryExecMode = p.Mode
	}
}

package admin_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	osexec "os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/admin"
)

// childURL is the variable that makes the test binary redrive everything in the
// database that it names, or go on with the redrive of its second word.
const childURL = "PAWL_TEST_REDRIVE"

func TestMain(m *testing.M) {
	if value := os.Getenv(childURL); value != "" {
		child(value)
		return
	}
	os.Exit(m.Run())
}

func child(value string) {
	ctx := context.Background()
	url, id, again := strings.Cut(value, " ")
	pool, err := pgxpool.New(ctx, url)
	if err == nil {
		c := admin.New(pool, admin.Options{By: "a child"})
		progress := func(r admin.Redrive) { fmt.Println(r.ID, r.Redriven) }
		if again {
			_, err = c.ContinueRedrive(ctx, uuid.MustParse(id), admin.RedriveOptions{Progress: progress})
		} else {
			_, err = c.Redrive(ctx, admin.RedriveOptions{Filter: admin.DeadFilter{All: true}, Progress: progress})
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func urlOf(pool *pgxpool.Pool) string {
	c := pool.Config().ConnConfig
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(c.User, c.Password), Path: "/" + c.Database,
		Host: net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port))), RawQuery: "sslmode=disable",
	}
	return u.String()
}

// A redrive whose process is killed in the middle, several times, runs each letter
// once, and its numbers are right.
func TestRedriveSurvivesItsProcess(t *testing.T) {
	t.Parallel()
	pool, c := open(t)
	const letters = 3000
	exec(t, pool, `INSERT INTO pawl.dead_letters (job_id, kind, queue, version, capability, priority, organization_id, attempts, max_attempts, code, summary, enqueued_at, died_at, args)
		SELECT gen_random_uuid(), 'send_mail', 'mail', 1, 1, 2, '', 1, 3, 'permanent', 'row ' || n, clock_timestamp(), clock_timestamp(), jsonb_build_object('n', n)
		FROM generate_series(1, $1) n`, letters)
	value := urlOf(pool)
	for kill := range 4 {
		cmd := redriving(t, value)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		lines, before := bufio.NewScanner(out), -1
		for lines.Scan() {
			var (
				id       string
				redriven int
			)
			_, err := fmt.Sscan(lines.Text(), &id, &redriven)
			require.NoError(t, err)
			value = urlOf(pool) + " " + id
			if before < 0 {
				before = redriven
			}
			if redriven > before+kill*150 { // in the middle of the next step, if it is quick
				break
			}
		}
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait() // killed
	}
	_, id, _ := strings.Cut(value, " ")
	run, err := c.ContinueRedrive(t.Context(), uuid.MustParse(id), admin.RedriveOptions{})
	require.NoError(t, err)
	require.EqualValues(t, letters, run.Redriven)
	require.Zero(t, query[int](t, pool, `SELECT count(*) FROM pawl.dead_letters`))
	require.Equal(t, letters, query[int](t, pool, `SELECT count(DISTINCT id) FROM pawl.ready`))
	require.Equal(t, letters, query[int](t, pool, `SELECT count(*) FROM pawl.ready`))
	require.Equal(t, letters, query[int](t, pool, `SELECT count(*) FROM pawl.redriven`))
	require.Equal(t, letters, query[int](t, pool, `SELECT sum(things) FROM pawl.audit`))
	booksAddUp(t, pool)
}

// redriving is a process that redrives what value says.
func redriving(t *testing.T, value string) *osexec.Cmd {
	cmd := osexec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childURL+"="+value)
	cmd.Stderr = t.Output()
	return cmd
}

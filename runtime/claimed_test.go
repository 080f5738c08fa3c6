package runtime

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/store"
)

// What a failed claim may have taken is looked for; an error of the statement
// alone says that it has taken nothing. A backend can be terminated after its
// commit and before it has said so.
func TestFailedClaim(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		err  error
		lost bool
	}{
		"statement":      {&pgconn.PgError{SeverityUnlocalized: "ERROR", Code: "55P03"}, false},
		"not registered": {&pgconn.PgError{SeverityUnlocalized: "ERROR", Code: store.NotRegistered}, false},
		"terminated":     {&pgconn.PgError{SeverityUnlocalized: "FATAL", Code: "57P01"}, true},
		"crashed":        {&pgconn.PgError{SeverityUnlocalized: "PANIC", Code: "XX000"}, true},
		"cut":            {errors.New("unexpected EOF"), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &Worker{log: slog.New(slog.DiscardHandler)}
			q := newQueue(w, served{name: "q", concurrency: 1})
			q.claimFailed(tt.err)
			require.Equal(t, tt.lost, w.holdings.lostLately())
		})
	}
}

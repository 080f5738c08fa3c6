package runtime

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/google/uuid"
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
		err    error
		unsure int
	}{
		"statement":      {&pgconn.PgError{SeverityUnlocalized: "ERROR", Code: "55P03"}, 0},
		"not registered": {&pgconn.PgError{SeverityUnlocalized: "ERROR", Code: store.NotRegistered}, 0},
		"terminated":     {&pgconn.PgError{SeverityUnlocalized: "FATAL", Code: "57P01"}, 2},
		"crashed":        {&pgconn.PgError{SeverityUnlocalized: "PANIC", Code: "XX000"}, 2},
		"cut":            {errors.New("unexpected EOF"), 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &Worker{log: slog.New(slog.DiscardHandler)}
			q := newQueue(w, served{name: "q", concurrency: 1})
			q.claimFailed(&session{process: uuid.New()}, &store.Claim{Token: uuid.New(), SuspectToken: uuid.New()}, tt.err)
			var tokens int
			for _, all := range w.unsure.byOwner() {
				tokens += len(all)
			}
			require.Equal(t, tt.unsure, tokens)
		})
	}
}

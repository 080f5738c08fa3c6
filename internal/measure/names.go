// Package measure is what the metrics of packages task and runtime have in common:
// the bound on series, and the measurement of what is enqueued and published, which
// goes from whoever made it to the generics of generated code in a context. It uses
// the API of OpenTelemetry and nothing of an SDK.
package measure

import "sync"

// Other is the value of a label in place of all that the bound on series has no
// room for.
const Other = "_OTHER"

// The bound on series: so many values of a label there are at most.
const (
	MaxKinds  = 500
	MaxQueues = 200
	MaxEvents = 200
)

// Names are the values of a label, of which there are at most so many: those that
// are asked for first.
type Names struct {
	mu    sync.Mutex
	known map[string]bool // guarded by mu
	room  int             // guarded by mu; for others than the known
}

// NewNames makes room for that many.
func NewNames(most int) *Names { return &Names{known: make(map[string]bool), room: most} }

// Of is a name, or [Other] where there is no room for one more.
func (n *Names) Of(name string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.known[name] {
		return name
	}
	if n.room == 0 || name == "" {
		return Other
	}
	n.known[name] = true
	n.room--
	return name
}

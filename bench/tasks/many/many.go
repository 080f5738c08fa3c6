// Package many declares the same work in 64 queues.
package many

//go:generate go run ./declare
//go:generate go tool taskgen

// Args is the payload of every kind.
type Args struct {
	Number  int64  `json:"number"`
	Account string `json:"account"`
	Note    string `json:"note"`
}

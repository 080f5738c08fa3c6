// Package unknown declares a kind that the workers of the benchmark do not know,
// although its jobs are in their queue: what a deployment in the wrong order
// leaves behind.
package unknown

import "github.com/pawlgo/pawl/task"

//go:generate go tool taskgen

// Unknown is work that nobody here can do.
//
//task:queue bench
//task:timeout 1m
type Unknown struct{ task.Task[UnknownArgs] }

// UnknownArgs is the payload of Unknown.
type UnknownArgs struct {
	Number  int64  `json:"number"`
	Account string `json:"account"`
	Note    string `json:"note"`
}

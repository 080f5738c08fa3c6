//go:build !linux && !darwin

package localpg

import (
	"context"
	"fmt"
	"runtime"
)

type cluster struct{}

func startOwn(context.Context, Options) (*Server, error) {
	return nil, &NoServerError{Reasons: []error{
		fmt.Errorf("localpg cannot start a server on %s", runtime.GOOS),
	}}
}

func sharedOwn(ctx context.Context, opts Options) (*Server, error) { return startOwn(ctx, opts) }

// Stop returns [ErrNotOwned]: on this system every server is somebody else's.
func (s *Server) Stop(context.Context) error { return ErrNotOwned }

// Crash returns [ErrNotOwned], as Stop does.
func (s *Server) Crash(context.Context) error { return ErrNotOwned }

// Restart returns [ErrNotOwned], as Stop does.
func (s *Server) Restart(context.Context) error { return ErrNotOwned }

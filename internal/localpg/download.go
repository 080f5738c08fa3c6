//go:build linux || darwin

package localpg

import (
	"context"
	"errors"
)

func download(ctx context.Context, opts Options, acct account) (binaries, error) {
	return binaries{}, errors.New("no download")
}

//go:build linux || darwin

package localpg

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// layout is the version of what the processes that share a server agree on: the
// names in its directory, what they write to the FIFO, and info.json. Change it
// with any of them, so that builds from before and after do not meet.
const layout = "1"

// info is how to use a shared server. It is written when the server is ready.
type info struct {
	URL     string `json:"url"`
	Version int    `json:"version"`
}

func startOwn(ctx context.Context, opts Options) (*Server, error) {
	h, bin, err := prepare(ctx, opts)
	if err != nil {
		return nil, err
	}
	lock, err := h.lock(ctx)
	if err != nil {
		return nil, err
	}
	c, share, err := h.newCluster(ctx, opts, bin, privatePrefix, 0)
	// Other starts need not wait while this one makes its data directory.
	if err := errors.Join(err, lock.Close()); err != nil {
		return nil, err
	}
	closeServer := func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		return errors.Join(share.release(), c.gone(ctx))
	}
	if err := c.run(ctx, opts); err != nil {
		return nil, errors.Join(err, closeServer())
	}
	return &Server{url: c.url(), version: c.bin.version, own: c, close: once(closeServer)}, nil
}

func sharedOwn(ctx context.Context, opts Options) (*Server, error) {
	acct, err := serverAccount()
	if err != nil {
		return nil, &NoServerError{Reasons: []error{err}}
	}
	h, err := openHome(ctx, opts, acct)
	if err != nil {
		return nil, err
	}
	lock, err := h.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	prefix := sharedPrefix + shareKey(opts) + "-"
	dirs, err := h.dirs(prefix)
	if err != nil {
		return nil, err
	}
	for _, dir := range dirs {
		s, err := joinShared(ctx, dir)
		if s != nil || err != nil {
			return s, err
		}
	}

	bin, err := findBinaries(ctx, opts, acct)
	if err != nil {
		return nil, err
	}
	c, share, err := h.newCluster(ctx, opts, bin, prefix, opts.linger())
	if err != nil {
		return nil, err
	}
	err = c.run(ctx, opts)
	if err == nil {
		err = c.publish()
	}
	if err != nil {
		return nil, errors.Join(err, share.release())
	}
	return &Server{url: c.url(), version: c.bin.version, own: c, shared: true, close: once(share.release)}, nil
}

// prepare finds what a server needs.
func prepare(ctx context.Context, opts Options) (home, binaries, error) {
	acct, err := serverAccount()
	if err != nil {
		return home{}, binaries{}, &NoServerError{Reasons: []error{err}}
	}
	bin, err := findBinaries(ctx, opts, acct)
	if err != nil {
		return home{}, binaries{}, err
	}
	h, err := openHome(ctx, opts, acct)
	return h, bin, err
}

// newCluster makes the directory of a server and its guard. The caller has the
// lock of the home. The guard comes first, so that from now on nothing stays
// when this process dies.
func (h home) newCluster(ctx context.Context, opts Options, bin binaries, prefix string, linger time.Duration) (*cluster, hold, error) {
	if err := h.sweep(ctx, opts); err != nil {
		return nil, hold{}, err
	}
	dir, err := h.newDir(prefix)
	if err != nil {
		return nil, hold{}, err
	}
	share, err := startGuard(dir, linger)
	if err != nil {
		return nil, hold{}, errors.Join(err, os.RemoveAll(dir))
	}
	c := &cluster{dir: dir, bin: bin, account: h.account, settings: opts.settings()}
	return c, share, nil
}

func (c *cluster) run(ctx context.Context, opts Options) error {
	if err := c.create(ctx); err != nil {
		return err
	}
	return c.start(ctx, opts.ports)
}

// publish lets other processes use the server.
func (c *cluster) publish() error {
	text, err := json.Marshal(info{URL: c.url(), Version: c.bin.version})
	if err != nil {
		return err
	}
	return os.WriteFile(c.file("info.json"), text, 0o600)
}

// joinShared joins the server of a directory. It returns nil and no error when
// that server is not to be used: it is about to be stopped, it has lost its
// guard or it does not answer. The caller then starts another one beside it.
func joinShared(ctx context.Context, dir string) (*Server, error) {
	share, ok, err := join(dir)
	if err != nil || !ok {
		return nil, err
	}
	s, err := usable(ctx, dir)
	if err != nil {
		releaseErr := share.release()
		if ctx.Err() != nil {
			return nil, errors.Join(context.Cause(ctx), releaseErr)
		}
		return nil, releaseErr
	}
	s.close = once(share.release)
	return s, nil
}

func usable(ctx context.Context, dir string) (*Server, error) {
	text, err := os.ReadFile(filepath.Join(dir, "info.json"))
	if err != nil {
		return nil, err
	}
	var i info
	if err := json.Unmarshal(text, &i); err != nil {
		return nil, err
	}
	if _, err := ping(ctx, i.URL); err != nil {
		return nil, err
	}
	return &Server{url: i.URL, version: i.Version, own: &cluster{dir: dir}, shared: true}, nil
}

// shareKey names what processes must agree on to share a server.
func shareKey(opts Options) string {
	sum := sha256.New()
	// With other binaries in PATH, another version is wanted.
	fmt.Fprintf(sum, "%s\n%s\n%v\n%q\n", layout, guardScript, opts.linger(), installed(opts))
	all := opts.settings()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(sum, "%q=%q\n", name, all[name])
	}
	return hex.EncodeToString(sum.Sum(nil)[:4])
}

// Stop stops the server and keeps its data: connections are cut, new ones are
// refused until [Server.Restart]. It returns when no process of the server is
// left.
//
// Stop, Crash and Restart need a server of [Start] that localpg has started
// itself; they return [ErrNotOwned] for any other.
func (s *Server) Stop(ctx context.Context) error { return s.signal(ctx, "INT") }

// Crash kills the server as a failing machine would, keeping its data. It
// returns when no process of the server is left.
func (s *Server) Crash(ctx context.Context) error { return s.signal(ctx, "KILL") }

// Restart stops the server if it runs, and starts it again on the same port, so
// [Server.URL] stays as it is. It returns when the server accepts connections.
func (s *Server) Restart(ctx context.Context) error {
	if err := s.Stop(ctx); err != nil {
		return err
	}
	return s.own.launch(ctx)
}

func (s *Server) signal(ctx context.Context, sig string) error {
	if s.own == nil || s.shared {
		return ErrNotOwned
	}
	return s.own.signal(ctx, sig)
}

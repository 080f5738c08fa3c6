//go:build linux || darwin

package localpg

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"
)

// The library that knows where builds are and how they are packed can only do
// everything at once: fetch, unpack, initialise and start a server. It cannot be
// cancelled, and it leaves a file in the temporary directory and connections in
// this process. So it runs apart, in a second process of this same program that
// does nothing else, can be killed, and has a temporary directory that is
// removed with all that is in it.

// fetchVariable tells a program that uses localpg that it is that second
// process. Its value is a fetchOrder in JSON.
const fetchVariable = "PAWL_LOCALPG_FETCH"

// fetchedName is the directory, in that of the order, where the build is put.
const fetchedName = "build"

// fetchOrder says what the second process is to do.
type fetchOrder struct {
	Dir        string // an empty directory
	Repository string // "" for the library's own
}

func init() {
	if order := os.Getenv(fetchVariable); order != "" {
		if err := fetchMain(order); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// fetchApart runs the order in the second process, and kills it when ctx ends.
func fetchApart(ctx context.Context, order fetchOrder) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	text, err := json.Marshal(order)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, program)
	cmd.Dir = order.Dir
	cmd.Env = append(os.Environ(), fetchVariable+"="+string(text), "TMPDIR="+order.Dir)
	cmd.WaitDelay = time.Second
	// Its input ends when this process dies, which the second one notices.
	alive, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	defer alive.Close()
	if out, err := cmd.CombinedOutput(); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if text := oneLine(string(out)); text != "" {
			return errors.New(text)
		}
		return err
	}
	return nil
}

// fetchMain is what the second process does.
func fetchMain(text string) error {
	var order fetchOrder
	if err := json.Unmarshal([]byte(text), &order); err != nil {
		return fmt.Errorf("%s: %w", fetchVariable, err)
	}
	// The process has no other end to take care of.
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	return fetch(order)
}

// fetch makes the library fetch and unpack the build, and no more: the next
// thing that it does is to make its runtime directory, which cannot succeed
// below a link to nowhere.
func fetch(order fetchOrder) error {
	nowhere := filepath.Join(order.Dir, "nowhere")
	if err := os.Symlink(filepath.Join(order.Dir, "missing"), nowhere); err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	config := embeddedpostgres.DefaultConfig().
		Version(downloadVersion).
		Port(uint32(port)).
		CachePath(filepath.Join(order.Dir, "archive")).
		BinariesPath(filepath.Join(order.Dir, fetchedName)).
		RuntimePath(filepath.Join(nowhere, "runtime")).
		Logger(io.Discard)
	if order.Repository != "" {
		config = config.BinaryRepositoryURL(order.Repository)
	}
	err = embeddedpostgres.NewDatabase(config).Start()
	if err == nil {
		return errors.New("embedded-postgres has started a server where it could not")
	}
	if !strings.HasPrefix(err.Error(), "unable to create runtime directory") {
		return err
	}
	return nil
}

package gen

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pawlgo/pawl/internal/gen/diag"
	"github.com/pawlgo/pawl/internal/gen/diff"
)

// Difference is a file that is not what a run would write.
type Difference struct {
	diag.Diagnostic
	Diff string // unified, from what is on disk to what a run would write
}

// Check is [Generate] for what compares with the disk instead of writing to it.
// A missing reference is an error, whatever opts say.
func Check(ctx context.Context, dir string, patterns []string, opts Options) (*Result, []Difference, error) {
	opts.Strict = true
	result, err := Generate(ctx, dir, patterns, opts)
	if err != nil {
		return result, nil, err
	}
	var all []Difference
	for _, f := range result.Files {
		disk, err := os.ReadFile(f.Path)
		missing := errors.Is(err, fs.ErrNotExist)
		if err != nil && !missing {
			return result, nil, fmt.Errorf("read the output: %w", err)
		}
		name := f.Path
		if rel, err := filepath.Rel(dir, f.Path); err == nil && !strings.HasPrefix(rel, "..") {
			name = filepath.ToSlash(rel)
		}
		from, to, message := name, name, "it is stale: run go generate"
		switch {
		case missing && f.Content == nil:
			continue
		case missing:
			from, message = os.DevNull, "it is missing: run go generate"
		case f.Content == nil:
			to, message = os.DevNull, "it is orphaned, since the package declares no task any more: run taskgen, which removes it"
		}
		text, line := diff.Unified(from, to, string(disk), string(f.Content))
		if text == "" && !missing && f.Content != nil {
			continue
		}
		all = append(all, Difference{diag.Diagnostic{File: name, Line: cmp.Or(line, 1), Column: 1, Message: message, Code: diag.Stale}, text})
	}
	return result, all, nil
}

// Package diag collects what taskgen has to say about the user's source: each
// error with its position, all of them in one run, in the order of the source.
package diag

import (
	"cmp"
	"fmt"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
)

// List is the errors of one run. Its methods are for one goroutine.
type List struct {
	dir  string // paths below it are written relative to it
	errs []located
}

type located struct {
	pos token.Position
	msg string
}

// New returns an empty list for a run in the directory dir, an absolute path.
func New(dir string) *List { return &List{dir: dir} }

// Addf adds an error at pos.
func (l *List) Addf(pos token.Position, format string, args ...any) {
	pos.Filename = l.rel(pos.Filename)
	pos.Column = max(pos.Column, 1) // a //line comment may leave it out
	l.errs = append(l.errs, located{pos, fmt.Sprintf(format, args...)})
}

// At writes a position the way the list does, for a message about two places.
func (l *List) At(pos token.Position) string {
	pos.Filename = l.rel(pos.Filename)
	return pos.String()
}

// Empty reports whether nothing was added.
func (l *List) Empty() bool { return len(l.errs) == 0 }

// Merge adds the errors of another list of the same run.
func (l *List) Merge(other *List) { l.errs = append(l.errs, other.errs...) }

// HasLine reports whether there is an error on the line of pos.
func (l *List) HasLine(pos token.Position) bool {
	file := l.rel(pos.Filename)
	return slices.ContainsFunc(l.errs, func(e located) bool { return e.pos.Filename == file && e.pos.Line == pos.Line })
}

// Lines returns the errors as "file:line:col: message", sorted by position and
// each once.
func (l *List) Lines() []string {
	slices.SortFunc(l.errs, func(a, b located) int {
		return cmp.Or(
			strings.Compare(a.pos.Filename, b.pos.Filename),
			cmp.Compare(a.pos.Line, b.pos.Line),
			cmp.Compare(a.pos.Column, b.pos.Column),
			strings.Compare(a.msg, b.msg),
		)
	})
	var lines []string
	for _, e := range slices.Compact(l.errs) {
		// The first line is the one that editors link; what follows belongs to it.
		lines = append(lines, e.pos.String()+": "+strings.ReplaceAll(strings.TrimSpace(e.msg), "\n", "\n\t"))
	}
	return lines
}

func (l *List) rel(file string) string {
	if !filepath.IsAbs(file) {
		return file
	}
	rel, err := filepath.Rel(l.dir, file)
	if err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return file
	}
	return filepath.ToSlash(rel)
}

// Package diag collects what taskgen has to say about the user's source, each
// error with its position, all of them in one run, in the order of the source,
// and writes it: for people, for terminals and for programs.
package diag

import (
	"cmp"
	"fmt"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
)

// Diagnostic is one error, or a note, and where it is.
type Diagnostic struct {
	// File is relative to the directory of the run where it is below it.
	File string `json:"file"`
	Line int    `json:"line"`
	// Column counts bytes from 1, as Go's own tools do.
	Column int `json:"column"`
	// EndColumn is just behind what the error is about, on the same line; 0 where
	// that is unknown.
	EndColumn int    `json:"endColumn,omitempty"`
	Message   string `json:"message"`
	Code      Code   `json:"code"`
	// Note says that it is about something that breaks nothing, and means something
	// all the same.
	Note bool `json:"note,omitempty"`

	source string // the line, for terminals
}

// Code says what kind of error a diagnostic is: one of the constants, or the ID
// of a rule that a change of a payload breaks.
type Code string

// The codes.
const (
	Source      Code = "source"      // code that does not parse, resolve or type-check
	Declaration Code = "declaration" // a task that is declared in a wrong way, a directive in a wrong place
	Directive   Code = "directive"   // what a directive says
	Payload     Code = "payload"     // what encoding/json would lose or refuse
	Name        Code = "name"        // names that meet, kinds that are declared twice
	Stale       Code = "stale"       // a file that is not what taskgen would write
	Lock        Code = "lock"        // a lock that cannot be read, a version without its upgrader
)

// String writes d as "file:line:col: message", and a note with that word before
// the message.
func (d Diagnostic) String() string {
	at := token.Position{Filename: d.File, Line: d.Line, Column: d.Column}
	// The first line is the one that editors link; what follows belongs to it.
	mark := ": "
	if d.Note {
		mark = ": note: "
	}
	return at.String() + mark + strings.ReplaceAll(d.Message, "\n", "\n\t")
}

// List is the errors of one run. Its methods are for one goroutine.
type List struct {
	*errors
	code Code // of what is added here
}

type errors struct {
	dir string // paths below it are written relative to it
	all []Diagnostic
}

// New returns an empty list for a run in the directory dir, an absolute path.
// Until [List.As] says otherwise, the code is [Source].
func New(dir string) *List { return &List{&errors{dir: dir}, Source} }

// As returns the same list for errors of another code.
func (l *List) As(code Code) *List { return &List{l.errors, code} }

// Addf adds an error at pos, about the word or the token that stands there.
func (l *List) Addf(pos token.Position, format string, args ...any) {
	l.AddSpanf(pos, 0, format, args...)
}

// AddSpanf adds an error about the length bytes from pos on.
func (l *List) AddSpanf(pos token.Position, length int, format string, args ...any) {
	d := Diagnostic{
		File: l.rel(pos.Filename), Line: pos.Line,
		Column:  max(pos.Column, 1), // a //line comment may leave it out
		Message: strings.TrimSpace(fmt.Sprintf(format, args...)), Code: l.code,
	}
	if length > 0 {
		d.EndColumn = d.Column + length
	}
	l.all = append(l.all, d)
}

// At writes a position the way the list does, for a message about two places.
func (l *List) At(pos token.Position) string {
	pos.Filename = l.rel(pos.Filename)
	return pos.String()
}

// Empty reports whether nothing was added.
func (l *List) Empty() bool { return len(l.all) == 0 }

// Merge adds the errors of another list of the same run.
func (l *List) Merge(other *List) { l.all = append(l.all, other.all...) }

// HasLine reports whether there is an error on the line of pos.
func (l *List) HasLine(pos token.Position) bool {
	file := l.rel(pos.Filename)
	return slices.ContainsFunc(l.all, func(d Diagnostic) bool { return d.File == file && d.Line == pos.Line })
}

// Diagnostics returns the errors sorted by position, each once, with what the
// source says about where they end.
func (l *List) Diagnostics() []Diagnostic {
	slices.SortFunc(l.all, func(a, b Diagnostic) int {
		return cmp.Or(
			strings.Compare(a.File, b.File),
			cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Column, b.Column),
			strings.Compare(a.Message, b.Message),
			cmp.Compare(b.EndColumn, a.EndColumn), // a known end before an unknown one
		)
	})
	all := slices.CompactFunc(slices.Clone(l.all), func(a, b Diagnostic) bool {
		return a.File == b.File && a.Line == b.Line && a.Column == b.Column && a.Message == b.Message
	})
	locate(l.dir, all)
	return all
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

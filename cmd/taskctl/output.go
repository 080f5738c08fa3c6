package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
)

// table is what people get to see.
type table struct {
	head []string
	rows [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// longest is how many characters of a cell are shown.
const longest = 72

// show writes an answer in the format that is asked for: doc as one JSON document,
// each of items as one line of JSON, or the table. Items may be nil, for an answer
// that is one thing.
func show[T any](a *app, doc any, items []T, t *table) error {
	w := bufio.NewWriter(a.stdout)
	switch a.format {
	case "json":
		encoder := json.NewEncoder(w)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(doc); err != nil {
			return err
		}
	case "jsonl":
		encoder := json.NewEncoder(w)
		encoder.SetEscapeHTML(false)
		for _, item := range items {
			if err := encoder.Encode(item); err != nil {
				return err
			}
		}
	default:
		t.write(w)
	}
	return w.Flush()
}

// one shows an answer that is one thing.
func one[T any](a *app, doc T, t *table) error { return show(a, doc, []T{doc}, t) }

func (t *table) write(w io.Writer) {
	all := t.rows
	if t.head != nil {
		all = append([][]string{t.head}, all...)
	}
	var widths []int
	for _, row := range all {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], width(cell))
		}
	}
	for _, row := range all {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString(cell)
			line.WriteString(strings.Repeat(" ", widths[i]-width(cell)+2))
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
}

// width is how wide a cell is, without its colour.
func width(cell string) int {
	n := utf8.RuneCountInString(cell)
	if strings.HasPrefix(cell, "\x1b[") {
		n -= strings.IndexByte(cell, 'm') + 1 + len("\x1b[0m")
	}
	return n
}

// plain is text as a terminal may have it: what comes from a database cannot move
// its cursor or change its colours.
func plain(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		switch {
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r == '\n' || r == '\t' || r == '\r':
			b.WriteByte(' ')
		default:
			fmt.Fprintf(&b, "\\x%02x", r)
		}
	}
	return b.String()
}

// cell is text in a table, bounded.
func cell(text string) string {
	text = plain(text)
	if utf8.RuneCountInString(text) <= longest {
		return text
	}
	return string([]rune(text)[:longest-1]) + "…"
}

// moment is a time in a table.
func moment(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04:05")
}

func ident(id uuid.UUID) string {
	if id == uuid.Nil {
		return "-"
	}
	return id.String()
}

// or is the text, or a dash for none.
func or(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func parseID(text string) (uuid.UUID, error) {
	id, err := uuid.Parse(text)
	if err != nil {
		return id, usage(fmt.Errorf("%q is no id: those have the form 01996f6a-7d0c-7a51-9a3c-3d1f2f3e4a5b", text))
	}
	return id, nil
}

// hint tells people something beside the answer.
func (a *app) hint(format string, args ...any) {
	if !a.quiet {
		fmt.Fprintf(a.stderr, format+"\n", args...)
	}
}

// more says how to go on with a list, where it is not over. A program finds the
// cursor in the document.
func (a *app) more(looked int, next string) {
	switch {
	case next == "":
	case looked > 0:
		a.hint("looked at %d rows; for more: --cursor %s", looked, next)
	default:
		a.hint("for more: --cursor %s", next)
	}
}

// colour paints a word, where standard output is a terminal that wants it.
func (a *app) colour(word, code string) string {
	if !terminal(a.stdout) || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return word
	}
	return "\x1b[" + code + "m" + word + "\x1b[0m"
}

func terminal(stream any) bool {
	file, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && file.Name() != os.DevNull
}

// confirm says what is about to be touched, and asks, unless that is not needed.
// It reports whether to go on: after --dry-run it does not.
func (a *app) confirm(format string, args ...any) (bool, error) {
	what := fmt.Sprintf(format, args...)
	if a.dryRun {
		fmt.Fprintf(a.stderr, "would %s (%s)\n", what, a.where)
		return false, nil
	}
	if a.yes {
		a.hint("%s (%s)", what, a.where)
		return true, nil
	}
	fmt.Fprintf(a.stderr, "about to %s (%s)\n", what, a.where)
	if !terminal(a.stdin) {
		return false, errUnconfirmed
	}
	fmt.Fprint(a.stderr, "Type yes to go on: ")
	line, err := bufio.NewReader(a.stdin).ReadString('\n')
	if err != nil && err != io.EOF {
		return false, err
	}
	if strings.TrimSpace(line) != "yes" {
		return false, errUnconfirmed
	}
	return true, nil
}

// announce says what is changed, where that needs no confirmation, and reports
// whether to do it.
func (a *app) announce(format string, args ...any) bool {
	if a.dryRun {
		fmt.Fprintf(a.stderr, "would %s (%s)\n", fmt.Sprintf(format, args...), a.where)
	}
	return !a.dryRun
}

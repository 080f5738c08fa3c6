package diag

import (
	"encoding/json"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// WriteText writes one "file:line:col: message" for each of all.
func WriteText(w io.Writer, all []Diagnostic) error {
	var b strings.Builder
	for _, d := range all {
		b.WriteString(d.String() + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteJSON writes one object for each of all, each on a line of its own, so that
// what reads them can begin before the end and needs no case for none.
func WriteJSON(w io.Writer, all []Diagnostic) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for _, d := range all {
		if err := enc.Encode(d); err != nil {
			return err
		}
	}
	return nil
}

// The control codes of [WriteTerminal].
const (
	bold  = "\x1b[1m"
	red   = "\x1b[31m"
	reset = "\x1b[0m"
)

// WriteTerminal writes each of all with its source line and what it is about
// underlined. Color is the only reason for which it writes control codes: those
// that stand in the source are not passed on.
func WriteTerminal(w io.Writer, all []Diagnostic, color bool) error {
	paint := func(code, text string) string {
		if !color {
			return text
		}
		return code + text + reset
	}
	var b strings.Builder
	for _, d := range all {
		at, message, _ := strings.Cut(printable(d.String()), ": ")
		b.WriteString(paint(bold, at+":") + " " + message + "\n")
		if d.source == "" {
			continue
		}
		line := strings.TrimLeft(d.source, " \t")
		// Columns count from 1, and the indentation is left out.
		from := max(d.Column-1-(len(d.source)-len(line)), 0)
		to := max(d.EndColumn-1-(len(d.source)-len(line)), from)
		const indent = "    "
		b.WriteString(indent + printable(line) + "\n")
		b.WriteString(indent + blank(line[:from]) + paint(red, strings.Repeat("^", max(utf8.RuneCountInString(line[from:to]), 1))) + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// printable takes out what a terminal would obey.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || !unicode.IsControl(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}

// blank returns what is as wide as text.
func blank(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' {
			return r
		}
		return ' '
	}, text)
}

package diag

import (
	"bytes"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"unicode"
)

// locate gives each diagnostic its source line and, where that is not known yet,
// its end. Files that cannot be read are passed over: the position is enough.
func locate(dir string, all []Diagnostic) {
	files := map[string]*source{}
	for i := range all {
		d := &all[i]
		src, ok := files[d.File]
		if !ok {
			path := d.File
			if !filepath.IsAbs(path) {
				path = filepath.Join(dir, path)
			}
			src = readSource(path)
			files[d.File] = src
		}
		line, start, ok := src.line(d.Line)
		if !ok || d.Column > len(line) {
			continue
		}
		d.source = line
		if d.EndColumn == 0 {
			d.EndColumn = d.Column + src.extent(start+d.Column-1)
		}
		d.EndColumn = min(max(d.EndColumn, d.Column+1), len(line)+1)
	}
}

// source is a file and its tokens.
type source struct {
	text   []byte
	starts []int // of lines
	tokens []lexeme
}

type lexeme struct {
	tok        token.Token
	start, end int
}

func readSource(path string) *source {
	text, err := os.ReadFile(path)
	if err != nil {
		return &source{}
	}
	s := &source{text: text, starts: []int{0}}
	for i, c := range text {
		if c == '\n' {
			s.starts = append(s.starts, i+1)
		}
	}
	if filepath.Ext(path) != ".go" {
		return s
	}
	fset := token.NewFileSet()
	file := fset.AddFile("", -1, len(text))
	var sc scanner.Scanner
	sc.Init(file, text, func(token.Position, string) {}, scanner.ScanComments)
	for {
		pos, tok, lit := sc.Scan()
		if tok == token.EOF {
			return s
		}
		if lit == "" {
			lit = tok.String()
		}
		start := file.Offset(pos)
		// A comment's text is without its carriage returns, and so may seem shorter.
		s.tokens = append(s.tokens, lexeme{tok, start, min(start+len(lit), len(text))})
	}
}

// line returns line n, from 1, without its end, and where it starts.
func (s *source) line(n int) (line string, start int, ok bool) {
	if n < 1 || n > len(s.starts) {
		return "", 0, false
	}
	start = s.starts[n-1]
	rest := s.text[start:]
	if end := bytes.IndexByte(rest, '\n'); end >= 0 {
		rest = rest[:end]
	}
	return strings.TrimSuffix(string(rest), "\r"), start, true
}

// extent returns the length of what stands at offset: a word of a comment, or a
// token of code with what it qualifies.
func (s *source) extent(offset int) int {
	for i, t := range s.tokens {
		switch {
		case offset >= t.end:
			continue
		case offset < t.start:
			return 1
		case t.tok == token.COMMENT:
			return word(string(s.text[offset:t.end]), offset == t.start)
		}
		end := t.end
		for next := i + 1; next < len(s.tokens) && s.tokens[next].start == end; next++ {
			if before, tok := s.tokens[next-1].tok, s.tokens[next].tok; !(before == token.IDENT && tok == token.PERIOD || tok == token.IDENT && (before == token.PERIOD || before == token.MUL)) {
				break
			}
			end = s.tokens[next].end
		}
		return end - offset
	}
	return 1
}

// word returns the length of the word that text begins with. The items of a list
// are words of their own; a directive's name is not parted from what marks it.
func word(text string, whole bool) int {
	end := strings.IndexFunc(text, func(r rune) bool { return unicode.IsSpace(r) || r == ',' && !whole })
	if end < 0 {
		end = len(text)
	}
	return end
}

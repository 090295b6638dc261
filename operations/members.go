package operations

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// object walks over the members of the JSON object that text begins with, none for any other value, and returns its length. It does
// no more than find where they begin and end: the text must be one that encoding/json has accepted, and what is between is read by
// encoding/json. member is given the name and the text from the value on, and returns the length of the value.
func object(text []byte, member func(name, text []byte) int) int {
	if len(text) == 0 || text[0] != '{' {
		return valueEnd(text)
	}
	rest := trim(text[1:])
	for len(rest) > 0 && rest[0] == '"' {
		n := stringEnd(rest)
		name := unquote(rest[:n])
		rest = trim(rest[n:])
		if len(rest) == 0 { // never in what was accepted
			break
		}
		rest = trim(rest[1:])               // the colon
		if n = member(name, rest); n == 0 { // nor that
			break
		}
		rest = nextAfter(rest[n:])
	}
	return len(text) - max(len(rest)-1, 0) // the brace
}

// array walks over the elements of a JSON array, as object does.
func array(text []byte, element func(text []byte) int) int {
	if len(text) == 0 || text[0] != '[' {
		return valueEnd(text)
	}
	rest := trim(text[1:])
	for len(rest) > 0 && rest[0] != ']' {
		n := element(rest)
		if n == 0 { // never in what was accepted
			break
		}
		rest = nextAfter(rest[n:])
	}
	return len(text) - max(len(rest)-1, 0) // the bracket
}

// nextAfter skips a comma.
func nextAfter(rest []byte) []byte {
	return trim(bytes.TrimPrefix(trim(rest), []byte{','}))
}

// trim skips white space.
func trim(text []byte) []byte {
	for len(text) > 0 && (text[0] == ' ' || text[0] == '\t' || text[0] == '\r' || text[0] == '\n') {
		text = text[1:]
	}
	return text
}

// valueEnd returns the length of the value that text begins with.
func valueEnd(text []byte) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i += stringEnd(text[i:]) - 1
			if depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth < 0 { // of the object around a number or a word
				return i
			}
			if depth == 0 {
				return i + 1
			}
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
		}
	}
	return len(text)
}

// stringEnd returns the length of the string that text begins with.
func stringEnd(text []byte) int {
	for i := 1; ; i++ {
		n := bytes.IndexByte(text[i:], '"')
		if n < 0 {
			return len(text) // never in what was accepted
		}
		i += n
		escapes := 0
		for text[i-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return i + 1
		}
	}
}

// unquote returns what a JSON string says.
func unquote(quoted []byte) []byte {
	plain := quoted[1 : len(quoted)-1]
	if !mayNeedEscape(plain) {
		return plain
	}
	var s string
	_ = json.Unmarshal(quoted, &s) // it was accepted
	return []byte(s)
}

// isOneOf reports whether encoding/json takes the key for one of names: without regard to case.
func isOneOf(key []byte, names []string) bool {
	return slices.Contains(names, string(key)) || slices.ContainsFunc(names, func(n string) bool { return isKey(key, n) })
}

// isKey reports whether encoding/json takes the key for name.
func isKey(key []byte, name string) bool { return strings.EqualFold(string(key), name) }

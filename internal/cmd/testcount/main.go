// Command testcount reads the events of go test -json from standard input and prints how many tests passed, failed and were
// skipped. With -lines it prints the line of each package and the output of failed tests instead. It exits 1 if a test or a
// package failed, or if no test ran.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

type event struct {
	Action, Package, Test, Output string
}

// counter holds what the events said so far.
type counter struct {
	passed, failed, skipped int
	output                  map[string][]string // of tests that still run, by package and test
}

func main() {
	lines := flag.Bool("lines", false, "print package lines and the output of failures instead of the counts")
	flag.Parse()
	c := counter{output: map[string][]string{}}
	out := io.Discard
	if *lines {
		out = os.Stdout
	}
	if err := c.read(os.Stdin, out); err != nil {
		fmt.Fprintln(os.Stderr, "testcount:", err)
		os.Exit(1)
	}
	if !*lines {
		fmt.Printf("%d passed, %d failed, %d skipped\n", c.passed, c.failed, c.skipped)
	}
	if c.failed > 0 || c.passed == 0 {
		os.Exit(1)
	}
}

func (c *counter) read(r io.Reader, out io.Writer) error {
	in := bufio.NewScanner(r)
	in.Buffer(nil, 1<<24)
	for in.Scan() {
		var e event
		if err := json.Unmarshal(in.Bytes(), &e); err != nil {
			fmt.Fprintln(out, in.Text()) // the go command's own words, such as a build error
			continue
		}
		c.add(e, out)
	}
	return in.Err()
}

func (c *counter) add(e event, out io.Writer) {
	key := e.Package + "\x00" + e.Test
	switch e.Action {
	case "output", "build-output":
		c.output[key] = append(c.output[key], e.Output)
	case "pass", "skip":
		switch {
		case e.Test == "":
			fmt.Fprint(out, lastLine(c.output[key]))
		case e.Action == "pass":
			c.passed++
		default:
			c.skipped++
		}
		delete(c.output, key)
	case "fail", "build-fail":
		c.failed++
		fmt.Fprint(out, strings.Join(c.output[key], ""))
		delete(c.output, key)
	}
}

// lastLine is the line that go test prints for a package: the last one of its output.
func lastLine(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return lines[len(lines)-1]
}

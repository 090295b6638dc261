package kubelet

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

// Script says how some commands end. A command without a script writes nothing and exits with 0 at once.
type Script struct {
	// Pattern selects pods: a path.Match pattern on "NAMESPACE/POD", for example "app/db-*". It is required.
	Pattern string `json:"pattern"`
	// Command selects commands: a part of the command's words joined by spaces. Empty selects every command.
	Command string `json:"command,omitempty"`
	// Container selects one container. Empty selects all.
	Container string `json:"container,omitempty"`
	// ExitCode is the command's exit code, 0 to 255.
	ExitCode int `json:"exitCode,omitempty"`
	// Stdout and Stderr are written at once, before Delay and Hang.
	Stdout string `json:"stdout,omitempty"`
	Stderr string `json:"stderr,omitempty"`
	// Delay is how long the command runs, whether or not its connection lasts as long. Zero ends it at once.
	Delay time.Duration `json:"delay,omitempty"`
	// Hang makes the command run until its connection ends, after Delay: no answer is ever sent.
	Hang bool `json:"hang,omitempty"`
	// Times is how many commands the script is for; it is gone after that. Zero is any number.
	Times int `json:"times,omitempty"`
}

// Validate returns every fault of the script, each naming the field, or nil.
func (s Script) Validate() error {
	var errs []error
	if s.Pattern == "" {
		errs = append(errs, errors.New("pattern: must not be empty"))
	}
	if _, err := path.Match(s.Pattern, "a/b"); err != nil {
		errs = append(errs, fmt.Errorf("pattern: %q: %w", s.Pattern, err))
	}
	if s.ExitCode < 0 || s.ExitCode > 255 {
		errs = append(errs, fmt.Errorf("exitCode: %d: want 0 to 255", s.ExitCode))
	}
	if s.Delay < 0 {
		errs = append(errs, fmt.Errorf("delay: %v: must not be negative", s.Delay))
	}
	if s.Times < 0 {
		errs = append(errs, fmt.Errorf("times: %d: must not be negative", s.Times))
	}
	return errors.Join(errs...)
}

// matches reports whether the script is for this command.
func (s Script) matches(namespace, pod, container string, command []string) bool {
	ok, err := path.Match(s.Pattern, namespace+"/"+pod)
	return err == nil && ok && (s.Container == "" || s.Container == container) &&
		strings.Contains(strings.Join(command, " "), s.Command)
}

// scripts are the scripts in force, the latest first.
type scripts struct {
	mu   sync.Mutex
	list []Script // guarded by mu
}

func (s *scripts) add(script Script) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = slices.Insert(s.list, 0, script)
}

// clear drops the scripts with this very pattern, or all for "".
func (s *scripts) clear(pattern string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = slices.DeleteFunc(s.list, func(x Script) bool { return pattern == "" || x.Pattern == pattern })
}

func (s *scripts) all() []Script {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.list)
}

// take returns the latest script for a command, the zero Script if there is none, and uses it up once.
func (s *scripts) take(namespace, pod, container string, command []string) Script {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.list, func(x Script) bool { return x.matches(namespace, pod, container, command) })
	if i < 0 {
		return Script{}
	}
	found := s.list[i]
	switch found.Times {
	case 0:
	case 1:
		s.list = slices.Delete(s.list, i, i+1)
	default:
		s.list[i].Times--
	}
	return found
}

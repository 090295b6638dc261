package phase

import (
	"fmt"
	"strings"
)

// Mermaid returns the machine as a Mermaid state diagram, which GitHub and many other places render. The text depends on
// the table only, so that it can be compared with a file. External phases are left out.
func (m *Machine[P]) Mermaid() string {
	var b strings.Builder
	b.WriteString("stateDiagram-v2\n")
	ids := map[P]string{}
	for i, p := range m.phases {
		ids[p] = string(p)
		if !plainID(string(p)) {
			ids[p] = fmt.Sprintf("phase%d", i)
			fmt.Fprintf(&b, "    state %q as %s\n", strings.ReplaceAll(string(p), `"`, "'"), ids[p])
		}
	}
	fmt.Fprintf(&b, "    [*] --> %s\n", ids[m.initial])
	for _, from := range m.phases {
		for _, to := range m.phases {
			if events := m.between(from, to); len(events) > 0 {
				fmt.Fprintf(&b, "    %s --> %s: %s\n", ids[from], ids[to], strings.Join(events, ", "))
			}
		}
	}
	for _, p := range m.phases {
		if s := m.specs[p]; s.Class == ClassTerminal && !s.External {
			fmt.Fprintf(&b, "    %s --> [*]\n", ids[p])
		}
	}
	return b.String()
}

// between returns the events that lead straight from one phase to the other.
func (m *Machine[P]) between(from, to P) []string {
	var events []string
	for _, t := range m.rows {
		if t.From == from && t.To == to {
			events = append(events, string(t.Event))
		}
	}
	return events
}

func plainID(s string) bool {
	for _, r := range s {
		if r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') {
			return false
		}
	}
	return s != "" && !strings.EqualFold(s, "end")
}

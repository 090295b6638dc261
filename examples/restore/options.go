package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/sheetanchor/sheetanchor/examples/internal/program"
)

// options are the flags, checked.
type options struct {
	kubeconfig, backup, name, store, class, output string
	timeout                                        time.Duration
	namespaces                                     map[string]string // old to new
	fail                                           map[string]string // claim to what the server says
}

func parseOptions(args []string, stderr io.Writer) (options, error) {
	o := options{namespaces: map[string]string{}, fail: map[string]string{}}
	flags := program.Flags("restore")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "`FILE` of a real cluster to use instead of the embedded one")
	flags.StringVar(&o.backup, "backup", "demo", "name of the backup to restore")
	flags.StringVar(&o.name, "name", "demo", "name of the restore; run again with the same name and -store to resume")
	flags.StringVar(&o.store, "store", "", "directory `DIR` with the records of the backup (default: a new temporary one with a recorded backup)")
	flags.StringVar(&o.class, "class", "", "storage class of the restored claims (default: the cluster's default class, in an embedded cluster fast)")
	flags.DurationVar(&o.timeout, "timeout", 10*time.Minute, "time without any progress of the claims after which those that wait have failed")
	flags.StringVar(&o.output, "o", "text", "output: text or json")
	flags.Func("map", "`OLD=NEW`: volumes of namespace OLD go to namespace NEW (may be repeated)", program.Pair("OLD=NEW", o.namespaces))
	flags.Func("fail", "`PVC=ERRORTEXT`: the server refuses this claim for good (embedded cluster; may be repeated)", program.Pair("PVC=ERRORTEXT", o.fail))
	if err := program.Parse(flags, args, stderr); err != nil {
		return o, err
	}
	if o.class == "" && o.embedded() {
		o.class = "fast"
	}
	return o, o.validate()
}

func (o options) embedded() bool { return o.kubeconfig == "" }

func (o options) validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	for _, name := range [][2]string{{"-backup", o.backup}, {"-name", objectName(o.name)}} {
		if problems := validation.IsDNS1123Subdomain(name[1]); len(problems) > 0 {
			fault("%s: %q: %s", name[0], name[1], problems[0])
		}
	}
	for _, from := range slices.Sorted(maps.Keys(o.namespaces)) {
		to := o.namespaces[from]
		if problems := validation.IsDNS1123Label(to); len(problems) > 0 {
			fault("-map %s=%s: %s", from, to, problems[0])
		}
	}
	if !o.embedded() && o.store == "" {
		fault("-kubeconfig needs -store, the directory with the records of the backup")
	}
	if !o.embedded() && len(o.fail) > 0 {
		fault("-fail is for the embedded cluster; it does not go with -kubeconfig")
	}
	faults = append(faults, program.Outputs(o.output))
	if o.timeout <= 0 {
		fault("-timeout %v: want more than 0", o.timeout)
	}
	return errors.Join(faults...)
}

// objectName is the name of the ConfigMap that is the restore object.
func objectName(restore string) string { return "sheetanchor-restore-" + restore }

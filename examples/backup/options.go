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
	file, kubeconfig, namespace, name, store string
	temporary                                bool // nobody named the store
	plan                                     bool
	timeout, maxFreeze                       time.Duration
	wait, output                             string
	concurrency                              int
	fail                                     map[string]string        // claim to the driver's error text
	slow                                     map[string]time.Duration // claim to the time until its snapshot is cut
}

func parseOptions(args []string, stderr io.Writer) (options, error) {
	o := options{fail: map[string]string{}, slow: map[string]time.Duration{}}
	flags := program.Flags("backup")
	flags.StringVar(&o.file, "f", "", "`FILE` with the output of kubectl get pods,pvc,pv,sc,volumesnapshotclass -o yaml|json, to use instead of the built-in objects (embedded cluster)")
	flags.BoolVar(&o.plan, "plan", false, "print the batches and stop")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "`FILE` of a real cluster to use instead of the embedded one")
	flags.StringVar(&o.namespace, "namespace", "", "namespace `NS` to back up (default: the only one with volumes in an embedded cluster)")
	flags.StringVar(&o.name, "name", "demo", "name of the backup; run again with the same name and -store to resume")
	flags.StringVar(&o.store, "store", "", "directory `DIR` for the records (default: a new temporary one)")
	flags.DurationVar(&o.timeout, "timeout", 10*time.Minute, "time without any progress of a driver's snapshots after which those that wait have failed")
	flags.StringVar(&o.wait, "wait", "watch", "how to wait for snapshots: watch or poll")
	flags.DurationVar(&o.maxFreeze, "max-freeze", 30*time.Second, "longest time a pod stays frozen; 0: until its snapshots are cut or have failed")
	flags.IntVar(&o.concurrency, "concurrency", 10, "snapshots of a batch that are sent and not yet cut at the same time")
	flags.StringVar(&o.output, "o", "text", "output: text or json")
	flags.Func("fail", "`PVC=ERRORTEXT`: the driver refuses this claim's snapshot for good (embedded cluster; may be repeated)", program.Pair("PVC=ERRORTEXT", o.fail))
	flags.Func("slow", "`PVC=DURATION`: the driver takes this long to cut this claim's snapshot (embedded cluster; may be repeated)", func(v string) error {
		claim, text, err := program.CutPair("PVC=DURATION", v)
		if err != nil {
			return err
		}
		o.slow[claim], err = time.ParseDuration(text)
		return err
	})
	if err := program.Parse(flags, args, stderr); err != nil {
		return o, err
	}
	return o, o.validate()
}

func (o options) embedded() bool { return o.kubeconfig == "" }

func (o options) validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if problems := validation.IsDNS1123Subdomain(o.name); len(problems) > 0 {
		fault("-name %q: %s", o.name, problems[0])
	} else if limit := validation.DNS1123SubdomainMaxLength - len(objectName("")); len(o.name) > limit {
		fault("-name %q: must be no more than %d characters", o.name, limit)
	}
	if o.namespace != "" {
		if problems := validation.IsDNS1123Label(o.namespace); len(problems) > 0 {
			fault("-namespace %q: %s", o.namespace, problems[0])
		}
	}
	if !o.embedded() {
		if o.namespace == "" {
			fault("-kubeconfig needs -namespace")
		}
		if o.file != "" {
			fault("-f is for the embedded cluster; it does not go with -kubeconfig")
		}
		if len(o.fail)+len(o.slow) > 0 {
			fault("-fail and -slow are for the embedded cluster; they do not go with -kubeconfig")
		}
	}
	if !slices.Contains([]string{"watch", "poll"}, o.wait) {
		fault("-wait %q: want watch or poll", o.wait)
	}
	if err := program.Outputs(o.output); err != nil {
		faults = append(faults, err)
	}
	if o.timeout <= 0 {
		fault("-timeout %v: want more than 0", o.timeout)
	}
	if o.maxFreeze < 0 {
		fault("-max-freeze %v: want 0 or more", o.maxFreeze)
	}
	if o.concurrency < 1 {
		fault("-concurrency %d: want 1 or more", o.concurrency)
	}
	for _, claim := range slices.Sorted(maps.Keys(o.slow)) {
		d := o.slow[claim]
		if d < 0 {
			fault("-slow %s=%v: want 0 or more", claim, d)
		}
	}
	return errors.Join(faults...)
}

// objectName is the name of the ConfigMap that is the backup object.
func objectName(backup string) string { return "sheetanchor-" + backup }

package finalize_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sheetanchor/sheetanchor/finalize"
)

func ExampleRunner_Step() {
	bound := false
	r, err := finalize.New([]finalize.Hook{
		{Name: "volumeinfo", After: []string{"bind"}, Run: func(context.Context) error { return nil }},
		{Name: "bind", Run: func(context.Context) error {
			if !bound {
				bound = true
				return finalize.Later(5*time.Second, "pv of app/data is not bound")
			}
			return nil
		}},
	}, finalize.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	res, err := r.Step(context.Background())
	fmt.Println(res.Done, res.RequeueAfter.Round(time.Second), err)
	for _, h := range res.Report.Hooks {
		fmt.Println(h.Name, h.State, h.Error)
	}
	// Output:
	// false 5s <nil>
	// bind waiting pv of app/data is not bound
	// volumeinfo pending
}

func ExampleRunner_Run() {
	r, err := finalize.New([]finalize.Hook{
		{Name: "release", Run: func(context.Context) error {
			return errors.Join(finalize.Item("app", "data", errors.New("still in use")), finalize.Item("app", "logs", nil))
		}},
		{Name: "notify", OnFailure: finalize.Warn, Run: func(context.Context) error { return errors.New("no route") }},
	}, finalize.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	report, err := r.Run(context.Background())
	fmt.Println(report.Errors(), report.Warnings(), report.Fatal(), err)
	fmt.Println(report.Results().Errors.Namespaces["app"])
	// Output:
	// 1 1 false <nil>
	// [hook release: app/data: still in use]
}

func ExampleNew_cycle() {
	run := func(context.Context) error { return nil }
	_, err := finalize.New([]finalize.Hook{
		{Name: "a", After: []string{"b"}, Run: run},
		{Name: "b", After: []string{"a"}, Run: run},
	}, finalize.Options{})
	fmt.Println(err)
	// Output: hook "a": After comes after itself: a after b after a
}

func ExampleResults_Merge() {
	var r finalize.Results
	for range 2 {
		var again finalize.Results
		again.Errors.Add("app", "volume app/data: refused")
		r.Merge(again)
	}
	data, err := finalize.EncodeResults(r)
	fmt.Println(r.Errors.Len(), len(data) > 0, err)
	// Output: 1 true <nil>
}

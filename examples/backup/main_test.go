package main

import (
	"context"
	"encoding/json"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// argsVariable makes the test binary the program itself, so that a test can kill a real process.
const argsVariable = "SHEETANCHOR_BACKUP_ARGS"

func TestMain(m *testing.M) {
	if text := os.Getenv(argsVariable); text != "" {
		var args []string
		if err := json.Unmarshal([]byte(text), &args); err != nil {
			panic(err)
		}
		os.Exit(run(context.Background(), args, os.Stdout, os.Stderr))
	}
	goleak.VerifyTestMain(m)
}

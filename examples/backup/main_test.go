package main

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/sheetanchor/sheetanchor/examples/internal/programtest"
)

func TestMain(m *testing.M) {
	programtest.Main(run)
	goleak.VerifyTestMain(m)
}

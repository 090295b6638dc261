package driver

import (
	"context"
	"errors"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// codeOf returns the code of that name; an empty one is Internal.
func codeOf(name string) (codes.Code, bool) {
	if name == "" {
		return codes.Internal, true
	}
	for code := codes.OK; code <= codes.Unauthenticated; code++ {
		if code.String() == name {
			return code, true
		}
	}
	return codes.Internal, false
}

// invalid answers that a field of a request is missing or wrong.
func invalid(field, text string) error {
	return status.Errorf(codes.InvalidArgument, "%s: %s", field, text)
}

// asStatus turns an error of the storage into what a caller gets.
func asStatus(err error) error {
	if err == nil {
		return nil
	}
	if _, is := status.FromError(err); is {
		return err
	}
	if answer, is := errors.AsType[*backuptest.DriverError](err); is {
		code, _ := codeOf(answer.Code)
		return status.Error(code, answer.Text)
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return status.FromContextError(err).Err()
	}
	return status.Error(codes.Internal, err.Error())
}

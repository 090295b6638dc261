package driver

import (
	"context"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// errorLog writes lines one at a time.
type errorLog struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *errorLog) add(c Call) {
	line := fmt.Sprintf("%s #%d %s name=%q id=%q claim=%q: %s: %s\n", c.Answered.UTC().Format("15:04:05.000"), c.Seq, c.Method,
		c.Name, c.ID, c.Claim, c.Code, strings.ReplaceAll(c.Text, "\n", " "))
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = io.WriteString(l.w, line) // nowhere is left to tell that the log cannot be written
}

// recorder returns what notes each call as it begins and before it is answered, and holds the rate limits.
func (s *service) recorder(log *errorLog) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		call := Call{Method: path.Base(info.FullMethod), Begun: s.clock()}
		s.describe(&call, req)
		call, err := s.journal.put(call)
		if err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
		var resp any
		if s.limits.allow(call.Method, call.Begun) {
			resp, err = handler(ctx, req)
		} else {
			err = status.Errorf(codes.ResourceExhausted, "rate limit of %s", call.Method)
		}
		call.Code, call.Answered = status.Code(err).String(), s.clock()
		if err != nil {
			call.Text = status.Convert(err).Message()
		} else {
			s.addAnswer(&call, resp)
		}
		if call.Method == deleteSnapshot || call.Method == deleteGroup {
			call.Snapshots = s.withGone(call.Snapshots)
		}
		if _, failed := s.journal.put(call); failed != nil {
			return nil, status.Error(codes.Internal, failed.Error())
		}
		if err != nil {
			log.add(call)
			return nil, err
		}
		return resp, nil
	}
}

// describe adds what the request tells.
func (s *service) describe(c *Call, req any) {
	st := s.store.get()
	switch r := req.(type) {
	case *csi.CreateVolumeRequest:
		c.Name, c.Claim = r.GetName(), joined(r.GetParameters(), claimNamespaceKey, claimNameKey)
	case *csi.DeleteVolumeRequest:
		v := st.Volumes[r.GetVolumeId()]
		c.ID, c.Name, c.Claim = r.GetVolumeId(), v.Name, v.Claim
	case *csi.CreateSnapshotRequest:
		c.Name, c.Claim = r.GetName(), st.Volumes[r.GetSourceVolumeId()].Claim
		c.VolumeSnapshot = joined(r.GetParameters(), snapshotNamespaceKey, snapshotNameKey)
		c.Content = r.GetParameters()[contentNameKey]
		if p, held := s.heldName(r.GetName()); held && c.Claim == "" {
			c.Claim = claimOf(p)
		}
	case *csi.DeleteSnapshotRequest:
		c.ID = r.GetSnapshotId()
		if p, held := s.held(c.ID); held {
			c.Name, c.Claim = p.Name, claimOf(p)
			s.addSnapshots(c, s.snapshot(st, p))
		}
	case *csi.ListSnapshotsRequest:
		c.ID = r.GetSnapshotId()
	case *csi.CreateVolumeGroupSnapshotRequest:
		c.Name = r.GetName()
	case *csi.GetVolumeGroupSnapshotRequest:
		c.ID, c.Name = r.GetGroupSnapshotId(), st.Groups[r.GetGroupSnapshotId()].Name
	case *csi.DeleteVolumeGroupSnapshotRequest:
		c.ID, c.Name = r.GetGroupSnapshotId(), st.Groups[r.GetGroupSnapshotId()].Name
		for _, id := range st.Groups[c.ID].Members {
			if p, held := s.held(id); held {
				s.addSnapshots(c, s.snapshot(st, p))
			}
		}
	}
}

// addAnswer adds what a good answer tells.
func (s *service) addAnswer(c *Call, resp any) {
	switch r := resp.(type) {
	case *csi.CreateVolumeResponse:
		c.ID = r.GetVolume().GetVolumeId()
	case *csi.CreateSnapshotResponse:
		c.ID = r.GetSnapshot().GetSnapshotId()
		s.addSnapshots(c, r.GetSnapshot())
	case *csi.CreateVolumeGroupSnapshotResponse:
		c.ID = r.GetGroupSnapshot().GetGroupSnapshotId()
		s.addSnapshots(c, r.GetGroupSnapshot().GetSnapshots()...)
	case *csi.GetVolumeGroupSnapshotResponse:
		s.addSnapshots(c, r.GetGroupSnapshot().GetSnapshots()...)
	}
}

// withGone returns the snapshots of a call that deletes, with those marked that are held no longer.
func (s *service) withGone(snapshots []CallSnapshot) []CallSnapshot {
	snapshots = slices.Clone(snapshots) // the log has the old ones
	for i, snapshot := range snapshots {
		p, held := s.held(snapshot.ID)
		snapshots[i].Gone = !held || !p.CutAt.Equal(snapshot.CutAt)
	}
	return snapshots
}

func (s *service) addSnapshots(c *Call, snapshots ...*csi.Snapshot) {
	for _, snapshot := range snapshots {
		told := CallSnapshot{
			ID: snapshot.GetSnapshotId(), Volume: snapshot.GetSourceVolumeId(), CutAt: snapshot.GetCreationTime().AsTime(),
			Ready: snapshot.GetReadyToUse(),
		}
		if c.Method == createSnapshot {
			told.Name, told.Claim = c.Name, c.Claim
		}
		if p, held := s.held(told.ID); held {
			told.Name, told.Claim = p.Name, claimOf(p)
		}
		c.Snapshots = append(c.Snapshots, told)
	}
}

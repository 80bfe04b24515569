package main

import (
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// busy lets one call at a time work on a volume or snapshot; a second one is
// told to come again, as the CSI specification has it.
type busy struct {
	mutex sync.Mutex
	ids   map[string]struct{}
}

func newBusy() *busy { return &busy{ids: map[string]struct{}{}} }

func (b *busy) begin(id string) (end func(), err error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if _, taken := b.ids[id]; taken {
		return nil, status.Errorf(codes.Aborted, "another call works on %s", id)
	}
	b.ids[id] = struct{}{}
	return func() {
		b.mutex.Lock()
		defer b.mutex.Unlock()
		delete(b.ids, id)
	}, nil
}

package main

import (
	"context"
	"errors"
	"os"
	"strconv"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
)

const (
	granularity  = 1 << 20
	defaultBytes = 1 << 30
	maximalBytes = 8 << 40
	oneNodeOnly  = "only-node"
)

// controller is the CSI controller service. It only ever touches files.
type controller struct {
	csi.UnimplementedControllerServer
	store *store
	busy  *busy
}

func (c *controller) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	reply := new(csi.ControllerGetCapabilitiesResponse)
	for _, kind := range []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
		csi.ControllerServiceCapability_RPC_CLONE_VOLUME,
		csi.ControllerServiceCapability_RPC_EXPAND_VOLUME,
		csi.ControllerServiceCapability_RPC_GET_CAPACITY,
		csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	} {
		reply.Capabilities = append(reply.Capabilities, &csi.ControllerServiceCapability{
			Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: kind}},
		})
	}
	return reply, nil
}

func (c *controller) CreateVolume(_ context.Context, request *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	if request.GetName() == "" {
		return nil, status.Error(codes.InvalidArgument, "no name")
	}
	if err := checkCapabilities(request.GetVolumeCapabilities()); err != nil {
		return nil, err
	}
	settings, err := parseParameters(request.GetParameters())
	if err != nil {
		return nil, err
	}
	end, err := c.busy.begin(idOf(request.GetName()))
	if err != nil {
		return nil, err
	}
	defer end()

	origin, err := c.origin(request.GetVolumeContentSource())
	if err != nil {
		return nil, err
	}
	if origin != nil && origin.isVolume && settings.refuseCloning {
		return nil, status.Error(codes.InvalidArgument, "this storage class does not clone volumes")
	}
	bytes, err := sizeFor(request.GetCapacityRange(), origin)
	if err != nil {
		return nil, err
	}
	wanted := &volume{
		ID:        idOf(request.GetName()),
		Name:      request.GetName(),
		Node:      chooseNode(request.GetAccessibilityRequirements(), origin),
		Bytes:     bytes,
		BlockSize: settings.blockSize,
		Source:    origin.reference(),
	}
	existing, err := c.store.volume(wanted.ID)
	switch {
	case err == nil:
		if !matches(existing, wanted, request.GetCapacityRange()) {
			return nil, status.Errorf(codes.AlreadyExists, "volume %s exists with another size or source", wanted.ID)
		}
		return created(existing, request.GetVolumeContentSource()), nil
	case !errors.Is(err, errNotFound):
		return nil, grpcError(err, wanted.ID)
	}
	if err := c.allocate(wanted, origin); err != nil {
		return nil, grpcError(err, wanted.ID)
	}
	return created(wanted, request.GetVolumeContentSource()), nil
}

func (c *controller) allocate(wanted *volume, from *origin) error {
	if err := c.store.prepareNode(wanted.Node); err != nil {
		return err
	}
	file := c.store.volumeFile(wanted)
	var err error
	if from == nil {
		err = writeWhole(file, func(empty *os.File) error { return empty.Truncate(wanted.Bytes) })
	} else {
		if err := flushIfAttached(from.file); err != nil {
			return err
		}
		err = copyFile(from.file, file, wanted.Bytes)
	}
	if err != nil {
		return err
	}
	return c.store.putVolume(wanted)
}

func created(v *volume, source *csi.VolumeContentSource) *csi.CreateVolumeResponse {
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{
		VolumeId:           v.ID,
		CapacityBytes:      v.Bytes,
		ContentSource:      source,
		AccessibleTopology: []*csi.Topology{{Segments: map[string]string{topologyKey: v.Node}}},
	}}
}

func (c *controller) DeleteVolume(_ context.Context, request *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	id := request.GetVolumeId()
	if id == "" {
		return nil, status.Error(codes.InvalidArgument, "no volume id")
	}
	end, err := c.busy.begin(id)
	if err != nil {
		return nil, err
	}
	defer end()
	found, err := c.store.volume(id)
	if errors.Is(err, errNotFound) {
		return &csi.DeleteVolumeResponse{}, nil
	}
	if err != nil {
		return nil, grpcError(err, id)
	}
	device, err := findLoop(c.store.volumeFile(found))
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return nil, grpcError(err, id)
	}
	if device != "" {
		return nil, status.Errorf(codes.FailedPrecondition, "volume %s is in use as %s", id, device)
	}
	if err := c.store.removeVolume(found); err != nil {
		return nil, grpcError(err, id)
	}
	return &csi.DeleteVolumeResponse{}, nil
}

func (c *controller) ValidateVolumeCapabilities(_ context.Context, request *csi.ValidateVolumeCapabilitiesRequest) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	if request.GetVolumeId() == "" {
		return nil, status.Error(codes.InvalidArgument, "no volume id")
	}
	if err := checkCapabilities(request.GetVolumeCapabilities()); err != nil {
		return nil, err
	}
	if _, err := c.store.volume(request.GetVolumeId()); err != nil {
		return nil, grpcError(err, request.GetVolumeId())
	}
	return &csi.ValidateVolumeCapabilitiesResponse{
		Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{
			VolumeContext:      request.GetVolumeContext(),
			VolumeCapabilities: request.GetVolumeCapabilities(),
			Parameters:         request.GetParameters(),
		},
	}, nil
}

func (c *controller) GetCapacity(context.Context, *csi.GetCapacityRequest) (*csi.GetCapacityResponse, error) {
	var usage unix.Statfs_t
	if err := unix.Statfs(c.store.root, &usage); err != nil {
		return nil, grpcError(err, c.store.root)
	}
	return &csi.GetCapacityResponse{AvailableCapacity: int64(usage.Bavail) * usage.Bsize}, nil
}

func (c *controller) ControllerExpandVolume(_ context.Context, request *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error) {
	id := request.GetVolumeId()
	if id == "" {
		return nil, status.Error(codes.InvalidArgument, "no volume id")
	}
	if request.GetCapacityRange() == nil {
		return nil, status.Error(codes.InvalidArgument, "no capacity range")
	}
	end, err := c.busy.begin(id)
	if err != nil {
		return nil, err
	}
	defer end()
	found, err := c.store.volume(id)
	if err != nil {
		return nil, grpcError(err, id)
	}
	bytes, err := sizeFor(request.GetCapacityRange(), nil)
	if err != nil {
		return nil, err
	}
	// A shrink is never done; the volume simply is large enough.
	if bytes > found.Bytes {
		if err := os.Truncate(c.store.volumeFile(found), bytes); err != nil {
			return nil, grpcError(err, id)
		}
		found.Bytes = bytes
		if err := c.store.putVolume(found); err != nil {
			return nil, grpcError(err, id)
		}
	}
	return &csi.ControllerExpandVolumeResponse{CapacityBytes: found.Bytes, NodeExpansionRequired: true}, nil
}

func (c *controller) CreateSnapshot(_ context.Context, request *csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse, error) {
	if request.GetName() == "" {
		return nil, status.Error(codes.InvalidArgument, "no name")
	}
	if request.GetSourceVolumeId() == "" {
		return nil, status.Error(codes.InvalidArgument, "no source volume id")
	}
	id := idOf(request.GetName())
	end, err := c.busy.begin("snapshot of " + id)
	if err != nil {
		return nil, err
	}
	defer end()
	existing, err := c.store.snapshot(id)
	switch {
	case err == nil:
		if existing.VolumeID != request.GetSourceVolumeId() {
			return nil, status.Errorf(codes.AlreadyExists, "snapshot %s exists of volume %s", id, existing.VolumeID)
		}
		return taken(existing), nil
	case !errors.Is(err, errNotFound):
		return nil, grpcError(err, id)
	}
	source, err := c.store.volume(request.GetSourceVolumeId())
	if err != nil {
		return nil, grpcError(err, request.GetSourceVolumeId())
	}
	file := c.store.volumeFile(source)
	if err := flushIfAttached(file); err != nil {
		return nil, grpcError(err, source.ID)
	}
	if err := copyFile(file, c.store.snapshotFile(id), source.Bytes); err != nil {
		return nil, grpcError(err, id)
	}
	record := &snapshot{
		ID:        id,
		Name:      request.GetName(),
		VolumeID:  source.ID,
		Bytes:     source.Bytes,
		BlockSize: source.BlockSize,
		Created:   time.Now().UTC(),
	}
	if err := c.store.putSnapshot(record); err != nil {
		return nil, grpcError(err, id)
	}
	return taken(record), nil
}

func taken(record *snapshot) *csi.CreateSnapshotResponse {
	return &csi.CreateSnapshotResponse{Snapshot: &csi.Snapshot{
		SnapshotId:     record.ID,
		SourceVolumeId: record.VolumeID,
		SizeBytes:      record.Bytes,
		CreationTime:   timestamppb.New(record.Created),
		ReadyToUse:     true,
	}}
}

func (c *controller) DeleteSnapshot(_ context.Context, request *csi.DeleteSnapshotRequest) (*csi.DeleteSnapshotResponse, error) {
	id := request.GetSnapshotId()
	if id == "" {
		return nil, status.Error(codes.InvalidArgument, "no snapshot id")
	}
	end, err := c.busy.begin("snapshot of " + id)
	if err != nil {
		return nil, err
	}
	defer end()
	if err := c.store.removeSnapshot(id); err != nil && !errors.Is(err, errNotFound) {
		return nil, grpcError(err, id)
	}
	return &csi.DeleteSnapshotResponse{}, nil
}

// flushIfAttached brings what a node wrote through the loop device, and which
// is still in its page cache, into the file before the file is copied.
func flushIfAttached(file string) error {
	device, err := findLoop(file)
	if err != nil || device == "" {
		return err
	}
	return flushLoop(device)
}

// settings are the StorageClass parameters the driver knows.
type settings struct {
	blockSize     uint32
	refuseCloning bool
}

func parseParameters(parameters map[string]string) (settings, error) {
	parsed := settings{blockSize: 512}
	for key, value := range parameters {
		switch key {
		case "blockSize":
			size, err := strconv.ParseUint(value, 10, 32)
			if err != nil || (size != 512 && size != 4096) {
				return parsed, status.Errorf(codes.InvalidArgument, "blockSize is %q, not 512 or 4096", value)
			}
			parsed.blockSize = uint32(size)
		case "cloning":
			if value != "refused" && value != "allowed" {
				return parsed, status.Errorf(codes.InvalidArgument, "cloning is %q, not allowed or refused", value)
			}
			parsed.refuseCloning = value == "refused"
		default:
			return parsed, status.Errorf(codes.InvalidArgument, "unknown parameter %q", key)
		}
	}
	return parsed, nil
}

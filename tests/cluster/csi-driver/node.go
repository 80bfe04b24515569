package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const fileSystem = "ext4"

// node is the CSI node service. A volume is staged by binding its loop device
// (and mounting its file system), published by a bind mount.
type node struct {
	csi.UnimplementedNodeServer
	store *store
	name  string
	busy  *busy
}

func (n *node) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	reply := new(csi.NodeGetCapabilitiesResponse)
	for _, kind := range []csi.NodeServiceCapability_RPC_Type{
		csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME,
		csi.NodeServiceCapability_RPC_EXPAND_VOLUME,
		csi.NodeServiceCapability_RPC_GET_VOLUME_STATS,
		csi.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	} {
		reply.Capabilities = append(reply.Capabilities, &csi.NodeServiceCapability{
			Type: &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: kind}},
		})
	}
	return reply, nil
}

func (n *node) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{
		NodeId:             n.name,
		AccessibleTopology: &csi.Topology{Segments: map[string]string{topologyKey: n.name}},
	}, nil
}

// begin checks what every call on a volume needs, and reserves the volume.
func (n *node) begin(volumeID string, paths ...string) (end func(), err error) {
	if volumeID == "" {
		return nil, status.Error(codes.InvalidArgument, "no volume id")
	}
	for _, path := range paths {
		if path == "" {
			return nil, status.Error(codes.InvalidArgument, "a path is missing")
		}
	}
	return n.busy.begin(volumeID)
}

func (n *node) NodeStageVolume(_ context.Context, request *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	staging := request.GetStagingTargetPath()
	end, err := n.begin(request.GetVolumeId(), staging)
	if err != nil {
		return nil, err
	}
	defer end()
	if request.GetVolumeCapability() == nil {
		return nil, status.Error(codes.InvalidArgument, "no volume capability")
	}
	if err := checkCapabilities([]*csi.VolumeCapability{request.GetVolumeCapability()}); err != nil {
		return nil, err
	}
	found, err := n.store.volume(request.GetVolumeId())
	if err != nil {
		return nil, grpcError(err, request.GetVolumeId())
	}
	if found.Node != n.name && found.Node != oneNodeOnly {
		return nil, status.Errorf(codes.FailedPrecondition, "volume %s is on node %s, this is %s", found.ID, found.Node, n.name)
	}
	device, err := attachLoop(n.store.volumeFile(found), found.BlockSize)
	if err != nil {
		return nil, grpcError(err, found.ID)
	}
	if mount := request.GetVolumeCapability().GetMount(); mount != nil {
		if err := stageFileSystem(device, staging, mount.GetMountFlags()); err != nil {
			return nil, grpcError(err, found.ID)
		}
	}
	return &csi.NodeStageVolumeResponse{}, nil
}

func stageFileSystem(device, staging string, flags []string) error {
	if err := os.MkdirAll(staging, 0o750); err != nil {
		return err
	}
	mounted, err := isMountPoint(staging)
	if err != nil || mounted {
		return err
	}
	if err := makeFileSystemIfBlank(device); err != nil {
		return err
	}
	if err := growUnmounted(device); err != nil {
		return err
	}
	return mountDevice(device, staging, flags)
}

func (n *node) NodeUnstageVolume(_ context.Context, request *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse, error) {
	end, err := n.begin(request.GetVolumeId(), request.GetStagingTargetPath())
	if err != nil {
		return nil, err
	}
	defer end()
	if err := unmountIfMounted(request.GetStagingTargetPath()); err != nil {
		return nil, grpcError(err, request.GetVolumeId())
	}
	found, err := n.store.volume(request.GetVolumeId())
	if errors.Is(err, errNotFound) {
		return &csi.NodeUnstageVolumeResponse{}, nil
	}
	if err == nil {
		err = detachLoop(n.store.volumeFile(found))
	}
	if err != nil {
		return nil, grpcError(err, request.GetVolumeId())
	}
	return &csi.NodeUnstageVolumeResponse{}, nil
}

func (n *node) NodePublishVolume(_ context.Context, request *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	target := request.GetTargetPath()
	end, err := n.begin(request.GetVolumeId(), target, request.GetStagingTargetPath())
	if err != nil {
		return nil, err
	}
	defer end()
	if request.GetVolumeCapability() == nil {
		return nil, status.Error(codes.InvalidArgument, "no volume capability")
	}
	found, err := n.store.volume(request.GetVolumeId())
	if err != nil {
		return nil, grpcError(err, request.GetVolumeId())
	}
	mounted, err := isMountPoint(target)
	if err != nil {
		return nil, grpcError(err, target)
	}
	if mounted {
		return &csi.NodePublishVolumeResponse{}, nil
	}
	device, err := findLoop(n.store.volumeFile(found))
	if err != nil {
		return nil, grpcError(err, found.ID)
	}
	if device == "" {
		return nil, status.Errorf(codes.FailedPrecondition, "volume %s is not staged", found.ID)
	}
	capability := request.GetVolumeCapability()
	if capability.GetAccessMode().GetMode() == csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER {
		published, err := isPublished(device, request.GetStagingTargetPath())
		if err != nil {
			return nil, grpcError(err, found.ID)
		}
		if published {
			return nil, status.Errorf(codes.FailedPrecondition, "volume %s has its one writer", found.ID)
		}
	}
	if capability.GetBlock() != nil {
		err = publishDevice(device, target)
	} else {
		err = publishDirectory(request.GetStagingTargetPath(), target, request.GetReadonly())
	}
	if err != nil {
		return nil, grpcError(err, found.ID)
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

func publishDevice(device, target string) error {
	if err := os.MkdirAll(filepath.Dir(target), 0o750); err != nil {
		return err
	}
	file, err := os.OpenFile(target, os.O_CREATE|os.O_RDONLY, 0o660)
	if err != nil {
		return err
	}
	file.Close()
	return bindMount(device, target, false)
}

func publishDirectory(staging, target string, readOnly bool) error {
	mounted, err := isMountPoint(staging)
	if err != nil {
		return err
	}
	if !mounted {
		return status.Errorf(codes.FailedPrecondition, "%s is not mounted", staging)
	}
	if err := os.MkdirAll(target, 0o750); err != nil {
		return err
	}
	return bindMount(staging, target, readOnly)
}

func (n *node) NodeUnpublishVolume(_ context.Context, request *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	target := request.GetTargetPath()
	end, err := n.begin(request.GetVolumeId(), target)
	if err != nil {
		return nil, err
	}
	defer end()
	if err := unmountIfMounted(target); err != nil {
		return nil, grpcError(err, target)
	}
	if err := os.Remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, grpcError(err, target)
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

func (n *node) NodeExpandVolume(_ context.Context, request *csi.NodeExpandVolumeRequest) (*csi.NodeExpandVolumeResponse, error) {
	end, err := n.begin(request.GetVolumeId(), request.GetVolumePath())
	if err != nil {
		return nil, err
	}
	defer end()
	found, err := n.store.volume(request.GetVolumeId())
	if err != nil {
		return nil, grpcError(err, request.GetVolumeId())
	}
	if _, err := os.Stat(request.GetVolumePath()); errors.Is(err, fs.ErrNotExist) {
		return nil, status.Errorf(codes.NotFound, "%s does not exist", request.GetVolumePath())
	}
	device, err := findLoop(n.store.volumeFile(found))
	if err != nil {
		return nil, grpcError(err, found.ID)
	}
	if device == "" {
		return nil, status.Errorf(codes.FailedPrecondition, "volume %s is not staged", found.ID)
	}
	if err := refreshLoopSize(device); err != nil {
		return nil, grpcError(err, found.ID)
	}
	if request.GetVolumeCapability().GetBlock() == nil && isDirectory(request.GetVolumePath()) {
		err := growMounted(device)
		if errors.Is(err, errOffline) {
			return nil, status.Error(codes.FailedPrecondition, err.Error())
		}
		if err != nil {
			return nil, grpcError(err, found.ID)
		}
	}
	return &csi.NodeExpandVolumeResponse{CapacityBytes: found.Bytes}, nil
}

func (n *node) NodeGetVolumeStats(_ context.Context, request *csi.NodeGetVolumeStatsRequest) (*csi.NodeGetVolumeStatsResponse, error) {
	id, path := request.GetVolumeId(), request.GetVolumePath()
	if id == "" || path == "" {
		return nil, status.Error(codes.InvalidArgument, "volume id and path are required")
	}
	found, err := n.store.volume(id)
	if err != nil {
		return nil, grpcError(err, id)
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, status.Errorf(codes.NotFound, "%s does not exist", path)
	}
	if !isDirectory(path) {
		device, err := findLoop(n.store.volumeFile(found))
		if err != nil || device == "" {
			return nil, status.Errorf(codes.NotFound, "volume %s is not staged", id)
		}
		bytes, err := deviceBytes(device)
		if err != nil {
			return nil, grpcError(err, id)
		}
		return &csi.NodeGetVolumeStatsResponse{Usage: []*csi.VolumeUsage{{Unit: csi.VolumeUsage_BYTES, Total: bytes}}}, nil
	}
	var usage unix.Statfs_t
	if err := unix.Statfs(path, &usage); err != nil {
		return nil, grpcError(err, path)
	}
	return &csi.NodeGetVolumeStatsResponse{Usage: []*csi.VolumeUsage{
		{
			Unit:      csi.VolumeUsage_BYTES,
			Total:     int64(usage.Blocks) * usage.Bsize,
			Available: int64(usage.Bavail) * usage.Bsize,
			Used:      int64(usage.Blocks-usage.Bfree) * usage.Bsize,
		},
		{
			Unit:      csi.VolumeUsage_INODES,
			Total:     int64(usage.Files),
			Available: int64(usage.Ffree),
			Used:      int64(usage.Files - usage.Ffree),
		},
	}}, nil
}

func isDirectory(path string) bool {
	status, err := os.Stat(path)
	return err == nil && status.IsDir()
}

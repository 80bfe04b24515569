package main

import (
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// origin is what a volume starts as a copy of.
type origin struct {
	id       string
	isVolume bool
	file     string
	bytes    int64
	// node is where the origin is, "" for a snapshot: those are everywhere.
	node string
}

func (o *origin) reference() string {
	switch {
	case o == nil:
		return ""
	case o.isVolume:
		return "volume/" + o.id
	default:
		return "snapshot/" + o.id
	}
}

func (c *controller) origin(source *csi.VolumeContentSource) (*origin, error) {
	switch {
	case source == nil:
		return nil, nil
	case source.GetVolume() != nil:
		id := source.GetVolume().GetVolumeId()
		found, err := c.store.volume(id)
		if err != nil {
			return nil, grpcError(err, "source volume "+id)
		}
		return &origin{id: id, isVolume: true, file: c.store.volumeFile(found), bytes: found.Bytes, node: found.Node}, nil
	case source.GetSnapshot() != nil:
		id := source.GetSnapshot().GetSnapshotId()
		found, err := c.store.snapshot(id)
		if err != nil {
			return nil, grpcError(err, "source snapshot "+id)
		}
		return &origin{id: id, file: c.store.snapshotFile(id), bytes: found.Bytes}, nil
	default:
		return nil, status.Error(codes.InvalidArgument, "unknown kind of content source")
	}
}

// chooseNode follows the scheduler's choice, which comes first among the
// preferred topologies. Where any node would do (Immediate binding), a clone
// stays beside its source. Copies across nodes work: the files of all nodes
// are on one machine.
func chooseNode(requirements *csi.TopologyRequirement, from *origin) string {
	var nodes []string
	for _, topology := range append(requirements.GetPreferred(), requirements.GetRequisite()...) {
		if node := topology.GetSegments()[topologyKey]; node != "" {
			nodes = append(nodes, node)
		}
	}
	if len(nodes) == 0 {
		return oneNodeOnly
	}
	if from != nil && from.node != "" && len(requirements.GetRequisite()) > 1 {
		for _, node := range nodes {
			if node == from.node {
				return node
			}
		}
	}
	return nodes[0]
}

// sizeFor picks the size within the range, at least that of the origin.
func sizeFor(limits *csi.CapacityRange, from *origin) (int64, error) {
	required, limit := limits.GetRequiredBytes(), limits.GetLimitBytes()
	if required < 0 || limit < 0 || (limit > 0 && required > limit) {
		return 0, status.Errorf(codes.InvalidArgument, "impossible capacity range: required %d, limit %d", required, limit)
	}
	bytes := required
	if bytes == 0 {
		bytes = defaultBytes
		if from != nil {
			bytes = from.bytes
		}
		if limit > 0 && bytes > limit {
			bytes = limit
		}
	}
	bytes = (bytes + granularity - 1) / granularity * granularity
	switch {
	case limit > 0 && bytes > limit:
		return 0, status.Errorf(codes.OutOfRange, "sizes are multiples of %d bytes; none is within the limit %d", granularity, limit)
	case bytes > maximalBytes:
		return 0, status.Errorf(codes.OutOfRange, "%d bytes are more than the largest volume, %d", bytes, int64(maximalBytes))
	case from != nil && bytes < from.bytes:
		return 0, status.Errorf(codes.OutOfRange, "%d bytes are fewer than the %d of %s", bytes, from.bytes, from.reference())
	}
	return bytes, nil
}

// matches tells whether a repeated CreateVolume asks for what there is. An
// expanded volume still answers to the request that made it.
func matches(existing, wanted *volume, limits *csi.CapacityRange) bool {
	if existing.Source != wanted.Source || existing.Bytes < limits.GetRequiredBytes() {
		return false
	}
	return limits.GetLimitBytes() == 0 || existing.Bytes <= limits.GetLimitBytes()
}

func checkCapabilities(capabilities []*csi.VolumeCapability) error {
	if len(capabilities) == 0 {
		return status.Error(codes.InvalidArgument, "no volume capabilities")
	}
	for _, capability := range capabilities {
		if capability.GetBlock() == nil && capability.GetMount() == nil {
			return status.Error(codes.InvalidArgument, "a volume is used as block device or as file system")
		}
		if kind := capability.GetMount().GetFsType(); kind != "" && !strings.EqualFold(kind, fileSystem) {
			return status.Errorf(codes.InvalidArgument, "file system %q: only %s is made here", kind, fileSystem)
		}
	}
	return nil
}

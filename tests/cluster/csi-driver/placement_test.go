package main

import (
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func topologies(nodes ...string) (list []*csi.Topology) {
	for _, node := range nodes {
		list = append(list, &csi.Topology{Segments: map[string]string{topologyKey: node}})
	}
	return list
}

func TestChooseNode(t *testing.T) {
	for name, test := range map[string]struct {
		preferred, requisite []string
		from                 *origin
		want                 string
	}{
		"the scheduler's choice":              {[]string{"b"}, []string{"b"}, nil, "b"},
		"the scheduler's choice for a clone":  {[]string{"b"}, []string{"b"}, &origin{node: "a"}, "b"},
		"the first preferred":                 {[]string{"b", "a"}, []string{"a", "b"}, nil, "b"},
		"a clone beside its source":           {[]string{"b", "a"}, []string{"a", "b"}, &origin{node: "a"}, "a"},
		"a clone whose source is not allowed": {[]string{"b", "a"}, []string{"a", "b"}, &origin{node: "c"}, "b"},
		"a snapshot is everywhere":            {[]string{"b", "a"}, []string{"a", "b"}, &origin{}, "b"},
		"no topology":                         {nil, nil, nil, oneNodeOnly},
	} {
		t.Run(name, func(t *testing.T) {
			requirement := &csi.TopologyRequirement{
				Preferred: topologies(test.preferred...), Requisite: topologies(test.requisite...),
			}
			if got := chooseNode(requirement, test.from); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestSizeFor(t *testing.T) {
	const mib = 1 << 20
	for name, test := range map[string]struct {
		required, limit int64
		from            *origin
		want            int64
		code            codes.Code
	}{
		"none asked for":           {0, 0, nil, defaultBytes, codes.OK},
		"none asked for a clone":   {0, 0, &origin{bytes: 7 * mib}, 7 * mib, codes.OK},
		"only a limit":             {0, 3 * mib, nil, 3 * mib, codes.OK},
		"rounded up":               {3*mib + 1, 0, nil, 4 * mib, codes.OK},
		"no multiple within":       {3*mib + 1, 3*mib + 2, nil, 0, codes.OutOfRange},
		"smaller than its source":  {3 * mib, 0, &origin{bytes: 4 * mib}, 0, codes.OutOfRange},
		"impossible":               {4 * mib, 3 * mib, nil, 0, codes.InvalidArgument},
		"larger than the largest":  {maximalBytes + 1, 0, nil, 0, codes.OutOfRange},
		"as large as the largest":  {maximalBytes, 0, nil, maximalBytes, codes.OK},
		"negative":                 {-1, 0, nil, 0, codes.InvalidArgument},
		"a clone larger than that": {9 * mib, 0, &origin{bytes: 4 * mib}, 9 * mib, codes.OK},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := sizeFor(&csi.CapacityRange{RequiredBytes: test.required, LimitBytes: test.limit}, test.from)
			if status.Code(err) != test.code || got != test.want {
				t.Errorf("got %d, %v", got, err)
			}
		})
	}
}

func TestParseParameters(t *testing.T) {
	parsed, err := parseParameters(map[string]string{"blockSize": "4096", "cloning": "refused"})
	if err != nil || parsed.blockSize != 4096 || !parsed.refuseCloning {
		t.Errorf("got %+v, %v", parsed, err)
	}
	for _, wrong := range []map[string]string{{"blockSize": "1024"}, {"cloning": "maybe"}, {"colour": "blue"}} {
		if _, err := parseParameters(wrong); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%v: got %v", wrong, err)
		}
	}
}

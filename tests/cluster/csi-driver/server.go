package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// run serves until the context ends.
func run(ctx context.Context, o options) error {
	if err := o.check(); err != nil {
		return err
	}
	store, err := openStore(o.root)
	if err != nil {
		return err
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(logCalls))
	csi.RegisterIdentityServer(server, &identity{options: o})
	if o.controller {
		if err := store.sweep(); err != nil {
			return err
		}
		csi.RegisterControllerServer(server, &controller{store: store, busy: newBusy()})
	}
	if o.node != "" {
		if err := store.prepareNode(o.node); err != nil {
			return err
		}
		csi.RegisterNodeServer(server, &node{store: store, name: o.node, busy: newBusy()})
	}
	ended := make(chan error, 2)
	if err := serve(ctx, server, o.socket, ended); err != nil {
		return err
	}
	if o.registration != "" {
		registrar := grpc.NewServer()
		registration.RegisterRegistrationServer(registrar, &registrant{endpoint: o.socket})
		if err := serve(ctx, registrar, filepath.Join(o.registration, driverName+"-reg.sock"), ended); err != nil {
			return err
		}
	}
	slog.Info("serving", "socket", o.socket, "controller", o.controller, "node", o.node)
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return nil
	}
}

// serve listens on the socket, replacing the one a former process left.
func serve(ctx context.Context, server *grpc.Server, socket string, ended chan<- error) error {
	if err := os.MkdirAll(filepath.Dir(socket), 0o750); err != nil {
		return err
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", socket, err)
	}
	go func() { ended <- server.Serve(listener) }()
	context.AfterFunc(ctx, server.Stop)
	return nil
}

// logCalls writes one line per call, with the time it took.
func logCalls(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	start := time.Now()
	reply, err := handler(ctx, request)
	subject := ""
	switch named := request.(type) {
	case interface{ GetVolumeId() string }:
		subject = named.GetVolumeId()
	case interface{ GetSnapshotId() string }:
		subject = named.GetSnapshotId()
	case interface{ GetName() string }:
		subject = named.GetName()
	}
	slog.Info("call", "method", filepath.Base(info.FullMethod), "subject", subject,
		"code", status.Code(err).String(), "ms", time.Since(start).Milliseconds(), "error", message(err))
	return reply, err
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return status.Convert(err).Message()
}

// registrant tells kubelet's plugin watcher where the driver listens; what
// the node-driver-registrar does elsewhere.
type registrant struct {
	registration.UnimplementedRegistrationServer
	endpoint string
}

func (r *registrant) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type:              "CSIPlugin",
		Name:              driverName,
		Endpoint:          r.endpoint,
		SupportedVersions: []string{"1.0.0"},
	}, nil
}

func (r *registrant) NotifyRegistrationStatus(_ context.Context, outcome *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	if !outcome.GetPluginRegistered() {
		slog.Error("kubelet refused the registration", "error", outcome.GetError())
	}
	return &registration.RegistrationStatusResponse{}, nil
}

// identity is the CSI identity service.
type identity struct {
	csi.UnimplementedIdentityServer
	options options
}

func (i *identity) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: driverName, VendorVersion: driverVersion}, nil
}

func (i *identity) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	capabilities := []*csi.PluginCapability{
		service(csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS),
		{Type: &csi.PluginCapability_VolumeExpansion_{VolumeExpansion: &csi.PluginCapability_VolumeExpansion{
			Type: csi.PluginCapability_VolumeExpansion_ONLINE,
		}}},
	}
	if i.options.controller {
		capabilities = append(capabilities, service(csi.PluginCapability_Service_CONTROLLER_SERVICE))
	}
	return &csi.GetPluginCapabilitiesResponse{Capabilities: capabilities}, nil
}

func service(kind csi.PluginCapability_Service_Type) *csi.PluginCapability {
	return &csi.PluginCapability{Type: &csi.PluginCapability_Service_{Service: &csi.PluginCapability_Service{Type: kind}}}
}

func (i *identity) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}

// grpcError gives an error of the store the code the CSI specification asks for.
func grpcError(err error, subject string) error {
	switch {
	case err == nil:
		return nil
	case status.Code(err) != codes.Unknown:
		return err
	case errors.Is(err, errNotFound):
		return status.Errorf(codes.NotFound, "%s does not exist", subject)
	default:
		return status.Errorf(codes.Internal, "%s: %v", subject, err)
	}
}

package main

import (
	"context"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"

	"moonfence.invalid/csi-driver/san"
)

// delays are how long the storage takes; the change itself comes at their end.
type delays struct{ attach, detach time.Duration }

type controller struct {
	csi.UnimplementedControllerServer
	storage *san.SAN
	delays  delays
}

func serveController(storage *san.SAN, socket string, wait delays) (*grpc.Server, error) {
	return serve(socket, func(server *grpc.Server) {
		csi.RegisterIdentityServer(server, identity{})
		csi.RegisterControllerServer(server, &controller{storage: storage, delays: wait})
	})
}

func (c *controller) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (
	*csi.ControllerGetCapabilitiesResponse, error) {
	response := &csi.ControllerGetCapabilitiesResponse{}
	for _, kind := range []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME,
	} {
		rpc := &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: kind}}
		response.Capabilities = append(response.Capabilities, &csi.ControllerServiceCapability{Type: rpc})
	}
	return response, nil
}

func (c *controller) CreateVolume(_ context.Context, request *csi.CreateVolumeRequest) (
	*csi.CreateVolumeResponse, error) {
	for _, capability := range request.GetVolumeCapabilities() {
		if err := checkCapability(capability); err != nil {
			return nil, err
		}
	}
	bytes := max(request.GetCapacityRange().GetRequiredBytes(), san.DefaultBytes)
	made, err := c.storage.Create(request.GetName(), request.GetParameters()["detach"], bytes)
	if err != nil {
		return nil, err
	}
	volume := &csi.Volume{VolumeId: request.GetName(), CapacityBytes: made.Bytes}
	return &csi.CreateVolumeResponse{Volume: volume}, nil
}

func (c *controller) DeleteVolume(_ context.Context, request *csi.DeleteVolumeRequest) (
	*csi.DeleteVolumeResponse, error) {
	return &csi.DeleteVolumeResponse{}, c.storage.Delete(request.GetVolumeId())
}

func (c *controller) ValidateVolumeCapabilities(_ context.Context, request *csi.ValidateVolumeCapabilitiesRequest) (
	*csi.ValidateVolumeCapabilitiesResponse, error) {
	if _, err := c.storage.Volume(request.GetVolumeId()); err != nil {
		return nil, err
	}
	response := &csi.ValidateVolumeCapabilitiesResponse{}
	for _, capability := range request.GetVolumeCapabilities() {
		if err := checkCapability(capability); err != nil {
			response.Message = err.Error()
			return response, nil
		}
	}
	response.Confirmed = &csi.ValidateVolumeCapabilitiesResponse_Confirmed{
		VolumeCapabilities: request.GetVolumeCapabilities(),
	}
	return response, nil
}

func (c *controller) ControllerPublishVolume(ctx context.Context, request *csi.ControllerPublishVolumeRequest) (
	*csi.ControllerPublishVolumeResponse, error) {
	if err := checkCapability(request.GetVolumeCapability()); err != nil {
		return nil, err
	}
	if err := sleep(ctx, c.delays.attach); err != nil {
		return nil, err
	}
	if _, err := c.storage.Attach(request.GetVolumeId(), request.GetNodeId()); err != nil {
		return nil, err
	}
	// No publish context: the node asks the storage for its device, because it has another one after a power-off.
	return &csi.ControllerPublishVolumeResponse{}, nil
}

// ControllerUnpublishVolume is what a detach is. It speaks to the storage alone, so a node that is cut off,
// frozen or dead cannot delay it.
func (c *controller) ControllerUnpublishVolume(ctx context.Context, request *csi.ControllerUnpublishVolumeRequest) (
	*csi.ControllerUnpublishVolumeResponse, error) {
	if err := sleep(ctx, c.delays.detach); err != nil {
		return nil, err
	}
	return &csi.ControllerUnpublishVolumeResponse{}, c.storage.Detach(request.GetVolumeId(), request.GetNodeId())
}

// sleep waits unless the caller gives up first.
func sleep(ctx context.Context, length time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(length):
		return nil
	}
}

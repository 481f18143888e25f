package rpc

import (
	"bytes"

	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // the codec that ours is made of
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// codec lets bytes that are no message pass, with a mark on them: gRPC would answer
// that the server has failed, and nobody could say otherwise. Whoever looks at messages
// refuses those that bear the mark.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2("proto")} }

// mark is a field that no message has.
var mark = protowire.AppendVarint(protowire.AppendTag(nil, protowire.MaxValidNumber, protowire.VarintType), 1)

func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	err := c.CodecV2.Unmarshal(data, v)
	if m, ok := v.(proto.Message); ok && err != nil {
		proto.Reset(m)
		m.ProtoReflect().SetUnknown(mark)
		return nil
	}
	return err
}

func unreadable(m proto.Message) bool { return bytes.Equal(m.ProtoReflect().GetUnknown(), mark) }

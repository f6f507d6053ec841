package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

const (
	smallBuffer = 4 << 10
	largeBuffer = 64 << 10
	// A connection that says more than this many requests is busy and gets the large buffer;
	// thousands of idle ones must not cost 64 KiB each.
	busyAfter = 8

	requestHead = 14 // of a request: length, api key, api version, correlation id, length of the client id
)

// broker answers every request at once with the same bytes as others like it; only the correlation id differs.
type broker struct {
	answers map[uint32][]byte // api_key<<16 | api_version → a whole frame
	shaped  sync.Map          // the same and a client id → a whole frame
	sinks   sync.Pool
}

func newBroker(port, topics int) *broker {
	b := &broker{answers: map[uint32][]byte{}}
	b.sinks.New = func() any { s := make([]byte, 256<<10); return &s }
	put := func(apiKey, apiVersion uint32, bytes []byte) { b.answers[apiKey<<16|apiVersion] = bytes }
	put(apiVersionsKey, apiVersionsVersion, apiVersionsAnswer())
	put(heartbeatKey, heartbeatVersion, heartbeatAnswer())
	put(metadataKey, 1, metadataV1Answer(port))
	put(metadataKey, metadataVersion, metadataAnswer(port, topics))
	return b
}

// answer is the frame for a request that begins like this; nil where it is not known. `last` is what was found before.
func (b *broker) answer(head []byte, last *found) []byte {
	key := binary.BigEndian.Uint32(head[4:])
	if reply, known := b.answers[key]; known {
		return reply
	}
	if last.reply != nil && last.key == key && last.clientID == string(head[requestHead:]) {
		return last.reply
	}
	version, clientID := int(key&0xffff), string(head[requestHead:])
	var made []byte
	switch key >> 16 {
	case produceKey:
		made = produceAnswer(shapeOf(version, clientID))
	case fetchKey:
		made = fetchAnswer(shapeOf(version, clientID))
	default:
		return nil
	}
	kept, _ := b.shaped.LoadOrStore(found{key: key, clientID: clientID}.name(), made)
	*last = found{key, clientID, kept.([]byte)}
	return last.reply
}

// found is the answer that a connection's last request got.
type found struct {
	key      uint32
	clientID string
	reply    []byte
}

func (f found) name() string { return fmt.Sprint(f.key, f.clientID) }

func (b *broker) serve(listener net.Listener) error {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer conn.Close()
			if err := b.converse(conn); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
				fmt.Println(`{"event":"error","reason":"` + err.Error() + `"}`)
			}
		}()
	}
}

func (b *broker) converse(conn net.Conn) error {
	reader := bufio.NewReaderSize(conn, smallBuffer)
	var pending []byte
	var last found
	for served := 0; ; served++ {
		if served == busyAfter {
			reader = bufio.NewReaderSize(reader, largeBuffer)
		}
		head, err := reader.Peek(requestHead)
		if err != nil {
			return err
		}
		if head, err = reader.Peek(requestHead + int(binary.BigEndian.Uint16(head[requestHead-2:]))); err != nil {
			return err
		}
		size := int(binary.BigEndian.Uint32(head))
		key := binary.BigEndian.Uint32(head[4:])
		var id [4]byte
		copy(id[:], head[correlationFrom:])
		reply := b.answer(head, &last)
		if reply == nil {
			return fmt.Errorf("api key %d version %d is not served", key>>16, key&0xffff)
		}
		if err := b.skip(reader, size+4); err != nil {
			return err
		}
		if len(reply) > largeBuffer {
			// Not copied: two buffers, one system call.
			front := append(pending, reply[:headBytes]...)
			copy(front[len(front)-4:], id[:])
			buffers := net.Buffers{front, reply[headBytes:]}
			if _, err := buffers.WriteTo(conn); err != nil {
				return err
			}
			pending = pending[:0]
			continue
		}
		at := len(pending)
		pending = append(pending, reply...)
		copy(pending[at+4:], id[:])
		// What is already here is answered together.
		if !holdsWholeRequest(reader) || len(pending) > largeBuffer {
			if _, err := conn.Write(pending); err != nil {
				return err
			}
			pending = pending[:0]
		}
	}
}

func holdsWholeRequest(reader *bufio.Reader) bool {
	buffered := reader.Buffered()
	if buffered < 4 {
		return false
	}
	head, _ := reader.Peek(4)
	return buffered >= int(binary.BigEndian.Uint32(head))+4
}

func (b *broker) skip(reader *bufio.Reader, bytes int) error {
	if bytes <= largeBuffer {
		_, err := reader.Discard(bytes)
		return err
	}
	sink := b.sinks.Get().(*[]byte)
	defer b.sinks.Put(sink)
	for bytes > 0 {
		part := *sink
		if bytes < len(part) {
			part = part[:bytes]
		}
		n, err := reader.Read(part)
		bytes -= n
		if err != nil {
			return err
		}
	}
	return nil
}

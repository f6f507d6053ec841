package main

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// The APIs and versions that load and broker speak: what clients of Kafka 4.0 choose, and of Metadata the last version
// that all peers can read.
const (
	produceKey     = 0
	fetchKey       = 1
	metadataKey    = 3
	heartbeatKey   = 12
	apiVersionsKey = 18

	produceVersion     = 12
	newestProduce      = 13
	fetchVersion       = 17
	metadataVersion    = 9
	heartbeatVersion   = 4
	apiVersionsVersion = 3
)

const (
	topic           = "orders"
	topicID         = "\x01\x02\x03\x04\x05\x06\x47\x08\x89\x0a\x0b\x0c\x0d\x0e\x0f\x10"
	recordBytes     = 1 << 10
	correlationFrom = 8 // in a request frame, its length included
	headBytes       = 8 // of an answer: length and correlation id
)

// shape is what Produce and Fetch requests look like: each has so many partitions of one topic, with so many batches
// of this size in each. It is sent as the client id, and the broker answers in the same shape.
type shape struct{ version, partitions, batches, bytes int }

func (s shape) clientID() string {
	return fmt.Sprintf("load-%d-%d-%d", s.partitions, s.batches, s.bytes)
}

func shapeOf(version int, clientID string) shape {
	s := shape{version, 1, 1, recordBytes}
	fmt.Sscanf(clientID, "load-%d-%d-%d", &s.partitions, &s.batches, &s.bytes)
	return s
}

// records are the batches of one partition.
func (s shape) records() string {
	batch, all := recordBatch(s.bytes), ""
	for i := 0; i < s.batches; i++ {
		all += batch
	}
	return all
}

// frame builds one message in Kafka's encoding; the first four bytes are its length.
type frame struct {
	bytes []byte
	fixed bool // of a version without compact lengths and tagged fields
}

func newFrame(sizeHint int) *frame { return &frame{bytes: make([]byte, 4, sizeHint+64)} }

func (f *frame) int8(v int8)   { f.bytes = append(f.bytes, byte(v)) }
func (f *frame) int16(v int16) { f.bytes = binary.BigEndian.AppendUint16(f.bytes, uint16(v)) }
func (f *frame) int32(v int32) { f.bytes = binary.BigEndian.AppendUint32(f.bytes, uint32(v)) }
func (f *frame) int64(v int64) { f.bytes = binary.BigEndian.AppendUint64(f.bytes, uint64(v)) }
func (f *frame) raw(v string)  { f.bytes = append(f.bytes, v...) }

func (f *frame) uvarint(v int) { f.bytes = binary.AppendUvarint(f.bytes, uint64(v)) }

// varint is zigzag, as the records of a batch use it.
func (f *frame) varint(v int64) { f.bytes = binary.AppendVarint(f.bytes, v) }

func (f *frame) string(v string) { f.int16(int16(len(v))); f.raw(v) }

// text, records, count and null write what is compact (its length plus one) from some version on.
func (f *frame) text(v string) {
	if f.fixed {
		f.string(v)
	} else {
		f.uvarint(len(v) + 1)
		f.raw(v)
	}
}

func (f *frame) records(v string) { f.count(len(v)); f.raw(v) }

func (f *frame) count(n int) {
	if f.fixed {
		f.int32(int32(n))
	} else {
		f.uvarint(n + 1)
	}
}

func (f *frame) nullText() {
	if f.fixed {
		f.int16(-1)
	} else {
		f.uvarint(0)
	}
}

func (f *frame) nullArray() { f.count(-1) }

func (f *frame) noTags() {
	if !f.fixed {
		f.uvarint(0)
	}
}

func (f *frame) done() []byte {
	binary.BigEndian.PutUint32(f.bytes, uint32(len(f.bytes)-4))
	return f.bytes
}

func request(apiKey, apiVersion int16, sizeHint int) *frame {
	return requestOf(apiKey, apiVersion, "load", true, sizeHint)
}

func requestOf(apiKey, apiVersion int16, clientID string, flexible bool, sizeHint int) *frame {
	f := newFrame(sizeHint)
	f.fixed = !flexible
	f.int16(apiKey)
	f.int16(apiVersion)
	f.int32(0) // the correlation id, patched per request
	f.string(clientID)
	f.noTags()
	return f
}

// answer starts a response with a version 1 header, or version 0 where tagged fields are unknown.
func answer(flexible bool, sizeHint int) *frame {
	f := newFrame(sizeHint)
	f.int32(0)
	f.fixed = !flexible
	f.noTags()
	return f
}

func apiVersionsRequest() []byte {
	f := request(apiVersionsKey, apiVersionsVersion, 0)
	f.text("notleader-load")
	f.text("1")
	f.noTags()
	return f.done()
}

func heartbeatRequest() []byte {
	f := request(heartbeatKey, heartbeatVersion, 0)
	f.text("group")
	f.int32(7)
	f.text("load-2f6c1c2e-5b1d-4a5e-9c62-0d6f3f1c9a10")
	f.nullText()
	f.noTags()
	return f.done()
}

func produceRequest(s shape) []byte {
	f := requestOf(produceKey, int16(s.version), s.clientID(), s.version >= 9, s.partitions*s.batches*s.bytes)
	f.nullText() // transactional_id
	f.int16(-1)
	f.int32(30000)
	f.count(1)
	f.topic(s.version)
	f.count(s.partitions)
	records := s.records()
	for i := 0; i < s.partitions; i++ {
		f.int32(int32(i))
		f.records(records)
		f.noTags()
	}
	f.noTags()
	f.noTags()
	return f.done()
}

// topic is named by its id from version 13 on, of Produce as of Fetch.
func (f *frame) topic(version int) {
	if version >= 13 {
		f.raw(topicID)
	} else {
		f.text(topic)
	}
}

func fetchRequest(s shape) []byte {
	f := requestOf(fetchKey, int16(s.version), s.clientID(), s.version >= 12, 0)
	if s.version < 15 {
		f.int32(-1) // replica_id
	}
	f.int32(500)
	f.int32(1)
	f.int32(50 << 20)
	f.int8(0)
	if s.version >= 7 {
		f.int32(0)
		f.int32(-1)
	}
	f.count(1)
	f.topic(s.version)
	f.count(s.partitions)
	for i := 0; i < s.partitions; i++ {
		f.int32(int32(i))
		if s.version >= 9 {
			f.int32(5)
		}
		f.int64(0)
		if s.version >= 12 {
			f.int32(-1)
		}
		if s.version >= 5 {
			f.int64(-1)
		}
		f.int32(1 << 20)
		f.noTags()
	}
	f.noTags()
	if s.version >= 7 {
		f.count(0)
	}
	if s.version >= 11 {
		f.text("")
	}
	f.noTags()
	return f.done()
}

// metadataRequest asks for all topics.
func metadataRequest() []byte {
	f := request(metadataKey, metadataVersion, 0)
	f.nullArray()
	f.int8(0)
	f.int8(0)
	f.int8(0)
	f.noTags()
	return f.done()
}

func apiVersionsAnswer() []byte {
	f := answer(false, 0)
	f.fixed = false // the body is; the header of this one never
	f.int16(0)
	known := [][2]int16{
		{produceKey, newestProduce}, {fetchKey, fetchVersion}, {metadataKey, metadataVersion},
		{heartbeatKey, heartbeatVersion}, {apiVersionsKey, apiVersionsVersion},
	}
	f.count(len(known))
	for _, api := range known {
		f.int16(api[0])
		f.int16(0)
		f.int16(api[1])
		f.noTags()
	}
	f.int32(0)
	f.noTags()
	return f.done()
}

func heartbeatAnswer() []byte {
	f := answer(true, 0)
	f.int32(0)
	f.int16(0)
	f.noTags()
	return f.done()
}

func produceAnswer(s shape) []byte {
	f := answer(s.version >= 9, 0)
	f.count(1)
	f.topic(s.version)
	f.count(s.partitions)
	for i := 0; i < s.partitions; i++ {
		f.int32(int32(i))
		f.int16(0)
		f.int64(4711)
		f.int64(-1)
		if s.version >= 5 {
			f.int64(0)
		}
		if s.version >= 8 {
			f.count(0)
			f.nullText()
		}
		f.noTags()
	}
	f.noTags()
	f.int32(0)
	f.noTags()
	return f.done()
}

func fetchAnswer(s shape) []byte {
	f := answer(s.version >= 12, s.partitions*s.batches*s.bytes)
	f.int32(0)
	if s.version >= 7 {
		f.int16(0)
		f.int32(0)
	}
	f.count(1)
	f.topic(s.version)
	f.count(s.partitions)
	records := s.records()
	for i := 0; i < s.partitions; i++ {
		f.int32(int32(i))
		f.int16(0)
		f.int64(1 << 20)
		f.int64(1 << 20)
		if s.version >= 5 {
			f.int64(0)
		}
		f.nullArray() // aborted transactions
		if s.version >= 11 {
			f.int32(-1)
		}
		f.records(records)
		f.noTags()
	}
	f.noTags()
	f.noTags()
	return f.done()
}

// metadataV1Answer lists the broker and no topics: what a proxy asks for before its first client.
func metadataV1Answer(port int) []byte {
	f := answer(false, 0)
	f.int32(1)
	f.int32(1)
	f.string("127.0.0.1")
	f.int32(int32(port))
	f.int16(-1)
	f.int32(1)
	f.int32(0)
	return f.done()
}

func metadataAnswer(port, topics int) []byte {
	f := answer(true, topics*80)
	f.int32(0)
	f.count(1)
	f.int32(1)
	f.text("127.0.0.1")
	f.int32(int32(port))
	f.nullText()
	f.noTags()
	f.text("benchmark-cluster")
	f.int32(1)
	f.count(topics)
	for i := 0; i < topics; i++ {
		f.int16(0)
		f.text(topicName(i))
		f.int8(0)
		f.count(1)
		f.int16(0)
		f.int32(0)
		f.int32(1)
		f.int32(5)
		f.count(1)
		f.int32(1)
		f.count(1)
		f.int32(1)
		f.count(0)
		f.noTags()
		f.int32(-1 << 31)
		f.noTags()
	}
	f.int32(-1 << 31)
	f.noTags()
	return f.done()
}

func topicName(i int) string {
	digits := [4]byte{}
	for at := 3; at >= 0; at-- {
		digits[at] = byte('0' + i%10)
		i /= 10
	}
	return topic + "-" + string(digits[:])
}

// recordBatch is one uncompressed batch of about this many bytes, of records of 1 KiB, with a true CRC.
func recordBatch(bytes int) string {
	count := (bytes + recordBytes - 1) / recordBytes
	value := (bytes-61)/count - 16
	if value < 1 {
		value = 1
	}
	records := &frame{}
	for i := 0; i < count; i++ {
		record := &frame{}
		record.int8(0)
		record.varint(0)
		record.varint(int64(i))
		record.varint(-1)
		record.varint(int64(value))
		record.bytes = append(record.bytes, make([]byte, value)...)
		record.varint(0)
		records.varint(int64(len(record.bytes)))
		records.bytes = append(records.bytes, record.bytes...)
	}
	body := &frame{} // what the CRC covers: attributes to the end
	body.int16(0)
	body.int32(int32(count - 1))
	body.int64(1700000000000)
	body.int64(1700000000000)
	body.int64(-1)
	body.int16(-1)
	body.int32(-1)
	body.int32(int32(count))
	body.bytes = append(body.bytes, records.bytes...)

	batch := &frame{}
	batch.int64(0)
	batch.int32(int32(len(body.bytes) + 9)) // partition_leader_epoch, magic and CRC come first
	batch.int32(-1)
	batch.int8(2)
	batch.int32(int32(crc32.Checksum(body.bytes, crc32.MakeTable(crc32.Castagnoli))))
	batch.bytes = append(batch.bytes, body.bytes...)
	return string(batch.bytes)
}

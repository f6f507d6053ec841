// What an error makes of an operation. The lab builds its Go clients with this file, too.
package recorder

import (
	"errors"
	"reflect"
	"strings"
)

var refusedCodes = map[int64]bool{10: true, 12: true, 17: true, 18: true, 21: true, 28: true, 29: true, 30: true, 31: true, 32: true, 35: true, 42: true, 43: true, 44: true, 53: true, 76: true, 87: true}

// ended is what an error makes of an operation: "fail" for one of Kafka's that surely kept it from happening (refused
// before anything was appended, and no retry gets past it), "info" for any other, every timeout and cut connection
// included. NOT_LEADER_OR_FOLLOWER can come after the append (KAFKA-13574).
func ended(err error) string {
	for ; err != nil; err = errors.Unwrap(err) {
		if code, found := kafkaCode(err); found {
			if refusedCodes[code] {
				return "fail"
			}
			return "info"
		}
	}
	return "info"
}

// kafkaCode is the code in a client's own error: a number (sarama, kafka-go), or a field or method Code (franz-go,
// librdkafka). No client is imported for it.
func kafkaCode(err error) (int64, bool) {
	value := reflect.Indirect(reflect.ValueOf(err))
	if !value.IsValid() {
		return 0, false
	}
	path := value.Type().PkgPath()
	if !strings.Contains(path, "kafka") && !strings.Contains(path, "sarama") && !strings.Contains(path, "kerr") {
		return 0, false
	}
	if method := reflect.ValueOf(err).MethodByName("Code"); method.IsValid() && method.Type().NumIn() == 0 {
		value = method.Call(nil)[0]
	} else if value.Kind() == reflect.Struct {
		value = value.FieldByName("Code")
	}
	switch value.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return value.Int(), true
	}
	return 0, false
}

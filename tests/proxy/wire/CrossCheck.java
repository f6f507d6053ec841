import com.fasterxml.jackson.databind.JsonNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/**
 * Kafka's own classes read and rewrite message bodies.
 *
 * Without input it prints "api first last requestHeaderVersions responseHeaderVersions" for every API. For each
 * line "request|response apiKey version hex" of standard input it prints the rewritten body as hex, a space, and
 * the body as Kafka's JSON. "defaults" in place of hex is the body that nobody filled in.
 */
public final class CrossCheck {
    private static final Map<String, Method> CONVERTERS = new HashMap<>();

    public static void main(String[] args) throws Exception {
        for (ApiMessageType api : ApiMessageType.values()) {
            StringBuilder requests = new StringBuilder();
            StringBuilder responses = new StringBuilder();
            for (short v = api.lowestSupportedVersion(); v <= api.highestSupportedVersion(true); v++) {
                requests.append(api.requestHeaderVersion(v));
                responses.append(api.responseHeaderVersion(v));
            }
            System.out.println(String.join(" ", String.valueOf(api.apiKey()),
                String.valueOf(api.lowestSupportedVersion()), String.valueOf(api.highestSupportedVersion(true)),
                requests.length() == 0 ? "-" : requests, responses.length() == 0 ? "-" : responses));
        }
        System.out.println("end");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] parts = line.split(" ", -1);
            try {
                System.out.println(rewritten(parts[0], Short.parseShort(parts[1]), Short.parseShort(parts[2]), parts[3]));
            } catch (Exception e) {
                System.out.println("error " + e);
            }
        }
    }

    private static String rewritten(String direction, short apiKey, short version, String hex) throws Exception {
        ApiMessageType api = ApiMessageType.fromApiKey(apiKey);
        ApiMessage message = direction.equals("request") ? api.newRequest() : api.newResponse();
        if (!hex.equals("defaults")) {
            ByteBuffer input = ByteBuffer.wrap(HexFormat.of().parseHex(hex));
            message.read(new ByteBufferAccessor(input), version);
            if (input.hasRemaining()) {
                return "error " + input.remaining() + " bytes left over";
            }
        }
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer output = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(output), cache, version);
        return HexFormat.of().formatHex(output.array()) + " " + json(message, version);
    }

    private static JsonNode json(Message message, short version) throws Exception {
        String name = message.getClass().getName() + "JsonConverter";
        Method write = CONVERTERS.get(name);
        if (write == null) {
            write = Class.forName(name).getMethod("write", message.getClass(), short.class);
            CONVERTERS.put(name, write);
        }
        return (JsonNode) write.invoke(null, message, version);
    }
}

package dev.rushgate.internal.redis;

import dev.rushgate.Contract;
import dev.rushgate.CorruptException;
import dev.rushgate.Hold;
import dev.rushgate.Unit;
import dev.rushgate.internal.Json;
import dev.rushgate.internal.Times;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/** Receipts: signed texts that restore a reservation. */
final class Receipts {
    private static final String ALGORITHM = "HmacSHA256";
    private static final Base64.Encoder TEXT = Base64.getUrlEncoder().withoutPadding();

    private Receipts() {}

    /** Content of a receipt. */
    record Receipt(long generation, String reservation, String buyer, List<Unit> units, long deadlineUs) {}

    /** The receipt of a reservation. */
    static String write(String sale, byte[] secret, Hold hold) {
        Map<String, Object> json = new LinkedHashMap<>();
        json.put("s", sale);
        json.put("g", hold.generation());
        json.put("q", hold.seq());
        json.put("i", hold.id());
        json.put("b", hold.buyer());
        json.put("u", hold.units().stream().map(unit -> List.of(unit.sku(), unit.unit())).toList());
        json.put("d", Times.micros(hold.deadline()));
        String content = TEXT.encodeToString(Json.write(json).getBytes(StandardCharsets.UTF_8));
        return Contract.RECEIPT_PREFIX + content + "." + TEXT.encodeToString(signature(secret, content));
    }

    private static byte[] signature(byte[] secret, String content) {
        try {
            Mac mac = Mac.getInstance(ALGORITHM);
            mac.init(new SecretKeySpec(secret, ALGORITHM));
            return mac.doFinal((Contract.RECEIPT_DOMAIN + content).getBytes(StandardCharsets.UTF_8));
        } catch (GeneralSecurityException everyPlatformHasIt) {
            throw new IllegalStateException(everyPlatformHasIt);
        }
    }

    /** The content of a receipt that this sale signed. Nothing for any other text. */
    static Optional<Receipt> read(String sale, byte[] secret, String text) {
        String[] parts = text.strip().split("\\.", -1);
        if (parts.length != 3 || !Contract.RECEIPT_PREFIX.equals(parts[0] + ".")) {
            return Optional.empty();
        }
        try {
            byte[] signed = Base64.getUrlDecoder().decode(parts[2]);
            if (!MessageDigest.isEqual(signature(secret, parts[1]), signed)) {
                return Optional.empty();
            }
            String content = new String(Base64.getUrlDecoder().decode(parts[1]), StandardCharsets.UTF_8);
            Map<?, ?> json = (Map<?, ?>) Json.read(content);
            return sale.equals(json.get("s")) ? Optional.of(receipt(json)) : Optional.empty();
        } catch (IllegalArgumentException | CorruptException | ClassCastException malformed) {
            return Optional.empty();
        }
    }

    private static Receipt receipt(Map<?, ?> json) {
        List<Unit> units = ((List<?>) json.get("u")).stream().map(entry -> (List<?>) entry)
                .map(unit -> new Unit((String) unit.get(0), (Long) unit.get(1))).toList();
        return new Receipt((Long) json.get("g"), (String) json.get("i"), (String) json.get("b"), units,
                ((Number) json.get("d")).longValue());
    }
}

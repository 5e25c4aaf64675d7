package rushgate

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"

	"github.com/rushgate/rushgate/clients/go/internal/contract"
)

// receipt is the content of a receipt.
type receipt struct {
	Sale       string        `json:"s"`
	Generation uint64        `json:"g"`
	Seq        uint64        `json:"q"`
	ID         string        `json:"i"`
	Buyer      string        `json:"b"`
	Units      []receiptUnit `json:"u"`
	Deadline   uint64        `json:"d"`
}

// receiptUnit is the pair of a SKU and a number.
type receiptUnit struct {
	sku  string
	unit uint64
}

// MarshalJSON writes the pair.
func (u receiptUnit) MarshalJSON() ([]byte, error) { return json.Marshal([]any{u.sku, u.unit}) }

// UnmarshalJSON reads the pair.
func (u *receiptUnit) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&u.sku, &u.unit})
}

func signature(secret []byte, content string) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(contract.ReceiptDomain + content))
	return mac.Sum(nil)
}

func writeReceipt(sale string, secret []byte, hold *Hold) (string, error) {
	content := receipt{
		Sale: sale, Generation: uint64(hold.Generation), Seq: hold.Seq, ID: hold.ID, Buyer: hold.Buyer,
		Deadline: uint64(hold.Deadline.UnixMicro()),
	}
	for _, unit := range hold.Units {
		content.Units = append(content.Units, receiptUnit{unit.SKU, uint64(unit.Unit)})
	}
	text, err := json.Marshal(content)
	if err != nil {
		return "", err
	}
	encoded := base64.RawURLEncoding.EncodeToString(text)
	signed := base64.RawURLEncoding.EncodeToString(signature(secret, encoded))
	return contract.ReceiptPrefix + encoded + "." + signed, nil
}

// readReceipt reads a receipt that this sale signed. False for any other text.
func readReceipt(sale string, secret []byte, text string) (receipt, bool) {
	text = strings.TrimSpace(text)
	content, signed, found := strings.Cut(strings.TrimPrefix(text, contract.ReceiptPrefix), ".")
	if !found || !strings.HasPrefix(text, contract.ReceiptPrefix) {
		return receipt{}, false
	}
	given, err := base64.RawURLEncoding.DecodeString(signed)
	if err != nil || !hmac.Equal(given, signature(secret, content)) {
		return receipt{}, false
	}
	var read receipt
	decoded, err := base64.RawURLEncoding.DecodeString(content)
	if err != nil || json.Unmarshal(decoded, &read) != nil || read.Sale != sale {
		return receipt{}, false
	}
	_, err = hex.DecodeString(read.ID)
	return read, err == nil
}

// isSameNumber reports whether other units must have one number in every line, as these have.
func (r receipt) isSameNumber() bool {
	seen := map[string]bool{}
	for _, unit := range r.Units {
		if unit.unit != r.Units[0].unit || seen[unit.sku] {
			return false
		}
		seen[unit.sku] = true
	}
	return len(r.Units) > 1
}

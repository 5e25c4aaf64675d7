-- name: held
SELECT fence, lease_until_us FROM lock WHERE name = ?1 AND token = ?2 AND lease_until_us > ?3;

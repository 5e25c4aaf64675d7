package dev.rushgate;

/**
 * Stock of a SKU: {@code total = free + held + confirmed + withdrawn}.
 *
 * @param sku SKU
 * @param total units in total
 * @param free units that are free
 * @param held units on hold
 * @param confirmed units that are sold
 * @param withdrawn units that were withdrawn
 * @param perBuyer purchase limit
 */
public record SkuState(String sku, long total, long free, long held, long confirmed, long withdrawn, int perBuyer) {}

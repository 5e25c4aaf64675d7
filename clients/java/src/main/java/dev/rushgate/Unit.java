package dev.rushgate;

/**
 * A unit of a SKU.
 *
 * @param sku SKU
 * @param unit number of the unit, from 1
 */
public record Unit(String sku, long unit) {}

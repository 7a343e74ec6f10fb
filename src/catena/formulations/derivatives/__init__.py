"""Derivatives of inverse and forward dynamics, by recursions. [SRW22]"""
